"""CONV_2D and FULLY_CONNECTED of int16 and int8 on the DSP extension: packing for isa/dsp/dsp_tile_s16.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import bias, requantize, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.op import Array, Call, Weights
from twinfer.runtime.ops.core.packing import ENDS, FOURS, PAIRS, padded
from twinfer.runtime.ops.core.requantize_s16 import short_channels
from twinfer.runtime.ops.core.window import Window

#: Pixels of a panel.
PIXELS = 3


def convolution(node: Node, g: Window, w: Array, macs: int) -> Call | None:
    """A convolution with weights int8 [out_c, k_h * k_w * in_c]; None if unsuitable."""
    c = short_channels(node, w)
    if c is None:
        return None
    k = padded(padded(c.weights, 4, 1), 2, 0)
    pairs = k.reshape(len(k) // 2, 2, -1, 2).transpose(0, 2, 3, 1)
    words = k.shape[1] // 2
    ends = np.stack([padded(v, 2).reshape(-1, 2) for v in (c.bias, c.mult)], 1)
    params = {"window": g.params, "words": words, "chunk": 2 * c.chunk(4), "limits": c.limits}
    packed = np.ascontiguousarray(pairs).reshape(len(pairs), -1).view("<i4")
    inputs = (node.input(0), weights(packed, PAIRS), requantize(ends, ENDS))
    scratch = 4 * (PIXELS + 1) * words
    return Call("tw_conv2d_dsp_s16", params, inputs, (node.output,), scratch, macs=macs, weights=Weights())


def fully_connected(node: Node, w: Array, macs: int) -> Call | None:
    """The same for FULLY_CONNECTED, weights int8 [out, depth]; unsuitable also where two do not fit one half."""
    c = short_channels(node, w)
    if c is None:
        return None
    k = padded(padded(c.weights.astype(np.int32), 4, 1), 4, 0)
    halves = 256 * k[1::2] + k[0::2]
    if halves.min() < -(1 << 15):  # -128 beside a negative one
        return None
    fours = halves.reshape(len(k) // 4, 2, -1, 2).transpose(0, 2, 1, 3)
    words = np.ascontiguousarray(fours, "<i2").reshape(len(fours), -1).view("<i4")
    mult = c.mult[:1] if (c.mult == c.mult[0]).all() else padded(c.mult, 4)
    (out, depth), k4 = w.shape, k.shape[1]
    shape = {"batches": node.input(0).size // depth, "depth": depth, "k4": k4, "chunk": 2 * c.chunk(4), "out": out}
    inputs = (node.input(0), weights(words, FOURS), bias(padded(c.bias, 4)), requantize(mult))
    scratch = 2 * k4 if k4 != depth else 0
    params = {**shape, "mults": mult.size, "limits": c.limits}
    stored = Weights(halves=True, unit=4)
    return Call("tw_fully_connected_dsp_s16", params, inputs, (node.output,), scratch, macs=macs, weights=stored)
