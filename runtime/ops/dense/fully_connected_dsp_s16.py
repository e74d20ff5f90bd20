"""FULLY_CONNECTED of int16 and int8 on the DSP extension: kernels_c/dense/fully_connected_dsp_s16.h."""

from __future__ import annotations

from twinfer.runtime.constant import bias, requantize, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.channels import mults_of
from twinfer.runtime.ops.core.packing import FOURS, padded
from twinfer.runtime.ops.dense._layer import dense_of
from twinfer.runtime.ops.isa.dsp import fours_s16
from twinfer.runtime.ops.isa.short import channels_s16
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = dense_of(node)
    c = channels_s16(layer.node, layer.weights)
    words = fours_s16(c.weights)
    mult = c.mult[:1] if mults_of(c.mult) == 1 else padded(c.mult, 4)
    inputs = (node.input(0), weights(words, FOURS), bias(padded(c.bias, 4)), requantize(mult))
    k4 = words.shape[1]
    scratch = 2 * k4 if k4 != layer.shape["depth"] else 0
    params = {**layer.shape, "k4": k4, "chunk": 2 * c.chunk(4), "mults": mult.size, "limits": c.limits}
    stored = Weights(halves=True, unit=4)
    return Call("tw_fully_connected_dsp_s16", params, inputs, (node.output,), scratch, macs=layer.macs, weights=stored)


VARIANT = Variant("dsp", ("FULLY_CONNECTED",), frozenset({"dsp"}), lower, ("INT16",), also=("BATCH_MATMUL",))
