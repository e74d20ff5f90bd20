"""CONV_2D and FULLY_CONNECTED on the DSP extension: which nodes suit, and packing for kernels_c/isa/dsp/dsp_tile.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime import constant
from twinfer.runtime.constant import requantize, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.op import Array, Call, Weights
from twinfer.runtime.ops.core.channels import channels_of
from twinfer.runtime.ops.core.packing import ENDS, FOURS, PAIRS, padded
from twinfer.runtime.ops.core.requantize import Channels, fast_channels
from twinfer.runtime.ops.core.window import Window

#: Pixels of a panel, and what the second channel's sum may reach: dsp_tile.h.
PIXELS, MOST = 3, 1 << 23


def convolution(node: Node, g: Window, w: Array, bias: Array, macs: int) -> Call | None:
    """A convolution with constant weights int8 [out_c, k_h * k_w * in_c] and bias int32 [out_c]; None if unsuitable."""
    channels = fast_channels(channels_of(node, w, bias))
    pairs = None if channels is None else _pairs(channels.weights, 2)
    if channels is None or pairs is None:
        return None
    words, chunk = pairs
    if chunk < words.shape[1]:
        return None
    params = {"window": g.params, "k4": 2 * words.shape[1], "in_zero": node.input(0).zero, "end": channels.end}
    inputs = (node.input(0), weights(words, PAIRS), requantize(_pair_ends(channels), ENDS))
    scratch = (2 * PIXELS + 1) * 2 * words.shape[1]
    stored = Weights(halves=True)
    return Call("tw_conv2d_dsp_s8", params, inputs, (node.output,), scratch, macs=macs, weights=stored)


def fully_connected(node: Node, w: Array, bias: Array) -> Call | None:
    """The same for FULLY_CONNECTED, weights int8 [out, depth]; unsuitable also where most of four would be padding."""
    channels = fast_channels(channels_of(node, w, bias)) if w.shape[1] > 2 else None
    pairs = None if channels is None else _pairs(channels.weights, 4)
    if channels is None or pairs is None:
        return None
    words, chunk = pairs
    (out, depth), k4 = w.shape, 2 * words.shape[1]
    fours = np.ascontiguousarray(words.reshape(len(words) // 2, 2, -1, 2).transpose(0, 2, 1, 3))
    mult, shift = padded(channels.mult, 4), np.ones(2 * len(words), np.int8)
    shift[:out] = -channels.shift
    if len({*zip(channels.mult, channels.shift, strict=True)}) == 1:
        mult, shift = mult[:1], shift[:1]
    shape = {"batches": node.input(0).size // depth, "depth": depth, "k4": k4, "chunk": chunk, "out": out}
    ends = (constant.bias(padded(2 * channels.bias, 4)), requantize(mult), requantize(shift))
    inputs = (node.input(0), weights(fours, FOURS), *ends)
    scratch, macs = k4 if k4 != depth else 0, node.input(0).size * out
    params = {**shape, "mults": mult.size, "end": channels.end}
    stored = Weights(halves=True, unit=4)
    return Call("tw_fully_connected_dsp_s8", params, inputs, (node.output,), scratch, macs=macs, weights=stored)


def _pairs(w: Array, multiple: int) -> tuple[Array, int] | None:
    """Words int32 [out / 2, k4 / 2] of weights int8 [out, k], out padded to a multiple, and the chunk.

    None where two weights do not fit one half: -128 beside a negative one.
    """
    k = padded(padded(w.astype(np.int32), 4, 1), multiple, 0)
    halves = 256 * k[1::2] + k[0::2]
    if halves.min() < -(1 << 15):
        return None
    words = halves.reshape(len(halves), -1, 4)[..., [0, 2, 1, 3]].reshape(len(halves), -1)
    return np.ascontiguousarray(words, "<i2").view("<i4"), _chunk(k[1::2])


def _chunk(second: Array) -> int:
    """Words of packed weights after which the sums over the second channels [out / 2, k4] have to be taken over."""
    fours = np.abs(second).reshape(len(second), -1, 4).sum(2) * 128
    size = int(fours.shape[1])
    while max(int(fours[:, i : i + size].sum(1).max()) for i in range(0, fours.shape[1], size)) >= MOST:
        size = -(-size // 2)
    return 2 * size


def _pair_ends(c: Channels) -> Array:
    """int32 [out / 2, 5], TW_DSP_ENDS: both biases, doubled, both multipliers, both right shifts in the low bytes."""
    bias, mult, shift = (padded(a, 2).reshape(-1, 2) for a in (2 * c.bias, c.mult, -c.shift.astype(np.int32)))
    shift = np.maximum(shift, 1)
    return np.column_stack([bias, mult, shift[:, 0] | shift[:, 1] << 8]).astype(np.int32)
