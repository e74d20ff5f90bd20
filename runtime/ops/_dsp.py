"""CONV_2D and FULLY_CONNECTED on the DSP extension: which nodes suit, and the packing that kernels_c/dsp_tile.h reads."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from twinfer.runtime.graph import Node
from twinfer.runtime.op import Array, Call
from twinfer.runtime.ops import _conv
from twinfer.runtime.ops._activation import quantized_range
from twinfer.runtime.ops._conv import Window
from twinfer.runtime.ops._requantize import Channels, fast_channels

#: Pixels of a panel, and what the second channel's sum may reach: dsp_tile.h.
PIXELS, MOST = 3, 1 << 23


def convolution(node: Node, g: Window, w: Array, bias: Array, macs: int) -> Call | None:
    """A convolution with constant weights int8 [out_c, k_h * k_w * in_c] and bias int32 [out_c]; None if unsuitable."""
    packed = _matrix(node, w, bias)
    if packed is None:
        return None
    chunk, arrays = packed
    low, high = quantized_range(node, node.output)
    k4 = -(-w.shape[1] // 4) * 4
    ends = {"in_zero": node.input(0).zero, "out_zero": node.output.zero, "act_min": low, "act_max": high}
    params = {**asdict(g), "k4": k4, "chunk": chunk, **ends}
    scratch = 2 * PIXELS * k4 + k4
    return Call("tw_conv2d_dsp_s8", params, (node.input(0), *arrays), (node.output,), scratch, macs=macs)


def fully_connected(node: Node, w: Array, bias: Array) -> Call | None:
    """The same for FULLY_CONNECTED, weights int8 [out, depth]."""
    packed = _matrix(node, w, bias)
    if packed is None:
        return None
    chunk, arrays = packed
    low, high = quantized_range(node, node.output)
    (out, depth), k4 = w.shape, -(-w.shape[1] // 4) * 4
    shape = {"batches": node.input(0).size // depth, "depth": depth, "k4": k4, "chunk": chunk, "out": out}
    params = {**shape, "out_zero": node.output.zero, "act_min": low, "act_max": high}
    scratch = k4 if k4 != depth else 0
    inputs, macs = (node.input(0), *arrays), node.input(0).size * out
    return Call("tw_fully_connected_dsp_s8", params, inputs, (node.output,), scratch, macs=macs)


def _matrix(node: Node, w: Array, bias: Array) -> tuple[int, tuple[Array, Array, Array]] | None:
    """chunk, and weights, ends and shift as dsp_tile.h describes them; None if it cannot hold these weights."""
    folded = _conv.fold_zero(w, bias, node.input(0).zero)
    ends = (node.output.zero, *quantized_range(node, node.output))
    channels = fast_channels(Channels(w, folded, *_conv.multipliers(node, len(w)), *ends))
    if channels is None:
        return None
    k = _conv.padded(_conv.padded(channels.weights.astype(np.int32), 4, 1), 2, 0)
    halves = 256 * k[1::2] + k[0::2]
    if halves.min() < -(1 << 15):  # a weight of -128 beside a negative one
        return None
    words = halves.reshape(len(halves), -1, 4)[..., [0, 2, 1, 3]].astype("<i2")
    doubled = np.stack([_conv.padded(2 * channels.bias, 2), _conv.padded(channels.mult, 2)], 1)
    shift = np.ones(len(k), np.int8)
    shift[: len(w)] = -channels.shift
    both = np.ascontiguousarray(doubled.reshape(-1, 2, 2).transpose(0, 2, 1)).reshape(-1, 4)
    return _chunk(k[1::2]), (words.reshape(len(words), -1).view("<i4"), both, shift)


def _chunk(second: Array) -> int:
    """Words of packed weights [out / 2][k4 / 2] after which the sum over the second channels [out / 2, k4] is taken."""
    fours = np.abs(second).reshape(len(second), -1, 4).sum(2) * 128
    parts = 1
    while True:
        size = -(-fours.shape[1] // parts)
        if max(fours[:, i : i + size].sum(1).max() for i in range(0, fours.shape[1], size)) < MOST:
            return 2 * size
        parts += 1
