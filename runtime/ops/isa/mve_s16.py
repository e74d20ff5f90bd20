"""CONV_2D and FULLY_CONNECTED of int16 and int8 on Helium: the packing that kernels_c/isa/mve/mve_tile_s16.h reads."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Node
from twinfer.runtime.op import Array, Call, Weights
from twinfer.runtime.ops.core.packing import FOURS, padded
from twinfer.runtime.ops.core.requantize_s16 import Channels, short_channels
from twinfer.runtime.ops.core.window import Window

#: Products of one instruction, and channels of a tile.
BLOCK, FOUR = 8, 4


def convolution(node: Node, g: Window, w: Array, macs: int) -> Call | None:
    """A convolution with weights int8 [out_c, k_h * k_w * in_c]; None if unsuitable."""
    c = short_channels(node, w)
    if c is None or (g.k_w > 1 and g.dilation_w > 1):
        return None
    blocks = -(-w.shape[1] // BLOCK)
    tile = {"blocks": blocks, "direct": int(g.pointwise and g.in_c >= BLOCK // 2), "chunk": BLOCK * c.chunk(BLOCK)}
    params, fours, scratch = {"window": g.params, "limits": c.limits, **tile}, _fours(c), 4 * BLOCK * blocks
    inputs = (node.input(0), weights(fours, FOURS))
    return Call("tw_conv2d_mve_s16", params, inputs, (node.output,), scratch, macs=macs, weights=_stored(fours))


def fully_connected(node: Node, w: Array, macs: int) -> Call | None:
    """The same for FULLY_CONNECTED, weights int8 [out, depth]."""
    c = short_channels(node, w)
    if c is None:
        return None
    out, depth = w.shape
    shape = {"batches": node.input(0).size // depth, "depth": depth, "out": out}
    tile = {"blocks": -(-depth // BLOCK), "chunk": BLOCK * c.chunk(BLOCK)}
    params, fours = {**shape, **tile, "limits": c.limits}, _fours(c)
    inputs = (node.input(0), weights(fours, FOURS))
    return Call("tw_fully_connected_mve_s16", params, inputs, (node.output,), macs=macs, weights=_stored(fours))


def _stored(fours: Array) -> Weights:
    """Where in them the weights are: between biases and multipliers."""
    return Weights(rows=len(fours), head=4 * FOUR, tail=4 * FOUR)


def _fours(c: Channels) -> Array:
    """Channels as mve_tile_s16.h describes them, int32 [out / 4, words]."""
    w = padded(padded(c.weights, BLOCK, 1), FOUR, 0)
    blocks = w.reshape(len(w) // FOUR, FOUR, -1, BLOCK).transpose(0, 2, 1, 3)
    words = np.ascontiguousarray(blocks).reshape(len(blocks), -1).view("<i4")
    bias, mult = (padded(v, FOUR).reshape(-1, FOUR) for v in (c.bias, c.mult))
    return np.concatenate([bias, words, mult], 1).astype(np.int32)
