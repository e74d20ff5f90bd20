"""CONV_2D of int8 with groups on computers: kernels_c/conv/conv2d_groups_wide.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime import constant
from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._layer import convolution_of
from twinfer.runtime.ops.core.channels import epilogue, fold_zero, lane_ends, one_rounding
from twinfer.runtime.ops.core.packing import LANES, LANES_S8, ROWS, pack_s8, padded
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

#: Bytes of x that a lane takes at once.
STEP = 4


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = convolution_of(node)
    g, groups, depth = layer.window, layer.groups, layer.weights.shape[3]
    accept(groups > 1, "it has no groups")
    accept(depth % STEP == 0, f"its groups have {depth} channels, no multiple of {STEP}")
    out, x = g.out_c // groups, node.input(0)
    rows = layer.weights.reshape(g.out_c, -1)
    mult, shift = lane_ends(layer.node, g.out_c)
    ends = (fold_zero(rows, layer.bias, 128 + x.zero), mult, shift)
    bias, mult, shift = (padded(values.reshape(groups, out), axis=1) for values in ends)
    packed = np.concatenate([pack_s8(group) for group in rows.reshape(groups, out, -1)])
    sizes = {"bytes": depth, "out": out, "padded": -(-out // LANES) * LANES}
    params: dict[str, Param] = {
        "window": g.params, "end": epilogue(node), **sizes, "in_zero": x.zero, "fast": one_rounding(shift)
    }  # fmt: skip
    inputs = (
        x, weights(packed, LANES_S8), constant.bias(bias), constant.requantize(mult), constant.requantize(shift)
    )  # fmt: skip
    kernel, scratch = "tw_conv2d_groups_wide_s8", ROWS * g.k_h * g.k_w * g.in_c
    return Call(kernel, params, inputs, (node.output,), scratch, macs=layer.macs, rows=g.by_rows())


VARIANT = Variant("wide", ("CONV_2D",), frozenset({"simd"}), lower, ("INT8",))
