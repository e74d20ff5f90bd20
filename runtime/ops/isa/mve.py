"""CONV_2D and FULLY_CONNECTED on Helium: which nodes suit, and the packing that kernels_c/isa/mve/mve_tile.h reads."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import requantize, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.op import Array, Call, Weights
from twinfer.runtime.ops.core.channels import channels_of
from twinfer.runtime.ops.core.packing import ENDS, FOURS, padded
from twinfer.runtime.ops.core.requantize import Channels, fast_channels
from twinfer.runtime.ops.core.window import Window

#: int8 products of one instruction, and channels of a tile.
BLOCK, FOUR = 16, 4


def convolution(node: Node, g: Window, w: Array, bias: Array, macs: int) -> Call | None:
    """A convolution with constant weights int8 [out_c, k_h * k_w * in_c] and bias int32 [out_c]; None if unsuitable."""
    channels = fast_channels(channels_of(node, w, bias))
    if channels is None or (g.k_w > 1 and g.dilation_w > 1):
        return None
    blocks = -(-w.shape[1] // BLOCK)
    direct = int(g.pointwise and g.in_c >= BLOCK // 2)
    ends = {"in_zero": node.input(0).zero, "end": channels.end}
    params = {"window": g.params, "blocks": blocks, "direct": direct, **ends}
    packed = _fours(channels)
    inputs = (node.input(0), weights(packed, FOURS))
    fours = Weights(rows=len(packed), head=4 * FOUR, tail=5 * FOUR)
    scratch = 2 * BLOCK * blocks
    return Call("tw_conv2d_mve_s8", params, inputs, (node.output,), scratch, macs=macs, weights=fours)


def fully_connected(node: Node, w: Array, bias: Array) -> Call | None:
    """The same for FULLY_CONNECTED, weights int8 [out, depth]."""
    channels = fast_channels(channels_of(node, w, bias))
    if channels is None:
        return None
    out, depth = w.shape
    first = np.minimum(np.arange(0, out, FOUR), max(out - FOUR, 0))
    each = np.minimum(first[:, None] + np.arange(FOUR), out - 1)
    shift = channels.shift.astype(np.int8)[each].view("<i4")
    ends = np.concatenate([channels.bias[each], channels.mult[each], shift], 1).astype(np.int32)
    shape = {"batches": node.input(0).size // depth, "depth": depth, "out": out}
    params = {**shape, "end": channels.end}
    inputs, macs = (node.input(0), weights(channels.weights), requantize(ends, ENDS)), node.input(0).size * out
    stored = Weights(unit=FOUR, overlap=True)
    return Call("tw_fully_connected_mve_s8", params, inputs, (node.output,), macs=macs, weights=stored)


def _fours(c: Channels) -> Array:
    """Channels as mve_tile.h describes them, int32 [out / 4, words]."""
    w = padded(padded(c.weights, BLOCK, 1), FOUR, 0)
    blocks = w.reshape(len(w) // FOUR, FOUR, -1, BLOCK).transpose(0, 2, 1, 3)
    words = np.frombuffer(blocks.tobytes(), "<i4").reshape(len(blocks), -1)
    bias, mult = (padded(v, FOUR).reshape(-1, FOUR) for v in (c.bias, c.mult))
    shift = padded(c.shift.astype(np.int8), FOUR).view("<i4")[:, None]
    return np.concatenate([bias, words, mult, shift], 1).astype(np.int32)
