"""Convolutions of int8 as the reference has them, nothing folded or packed: what techniques are measured against."""

from __future__ import annotations

from twinfer.runtime.constant import requantize
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._layer import geometry
from twinfer.runtime.ops.core.channels import bias_of, epilogue, multipliers
from twinfer.runtime.ops.core.unsigned import weight_zero
from twinfer.runtime.ops.core.weights import unpacked
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def _convolution(node: Node, target: Target) -> Call:
    node = unpacked(node)
    accept(weight_zero(node.input(1)) == 0, "the weights have a zero point")
    g, x, w = geometry(node), node.input(0), node.input(1)
    params: dict[str, Param] = {"window": g.params, "end": epilogue(node), "depth": w.shape[3], "in_zero": x.zero}
    inputs = (x, w, bias_of(node, g.out_c), *(requantize(values) for values in multipliers(node, g.out_c)))
    macs = g.pixels * w.size
    kernel = "tw_conv2d_reference_s8"
    return Call(kernel, params, inputs, (node.output,), macs=macs, weights=Weights(), rows=g.by_rows())


def _depthwise(node: Node, target: Target) -> Call:
    node = unpacked(node)
    accept(weight_zero(node.input(1)) == 0, "the weights have a zero point")
    g, x, w = geometry(node), node.input(0), node.input(1)
    params: dict[str, Param] = {
        "window": g.params, "end": epilogue(node), "multiplier": g.out_c // g.in_c, "in_zero": x.zero
    }  # fmt: skip
    inputs = (x, w, bias_of(node, g.out_c), *(requantize(values) for values in multipliers(node, g.out_c)))
    kernel, macs = "tw_depthwise_conv2d_reference_s8", g.pixels * w.size
    return Call(kernel, params, inputs, (node.output,), macs=macs, weights=Weights(), rows=g.by_rows())


NEEDS, TYPES = frozenset({"reference"}), ("INT8",)
VARIANTS = (
    Variant("reference", ("CONV_2D",), NEEDS, _convolution, TYPES),
    Variant("reference", ("DEPTHWISE_CONV_2D",), NEEDS, _depthwise, TYPES),
)
