"""Weights as the kernels on Helium read them: kernels_c/isa/mve/mve_tile.h and mve_tile_s16.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.graph import Array
from twinfer.runtime.ops.core.packing import padded
from twinfer.runtime.ops.core.requantize_s16 import Channels
from twinfer.runtime.program import Weights

#: Products per instruction, of int8 and of int16 with int8; channels of a tile, of two tiles; pixels of a tile.
BLOCK_S8, BLOCK_S16, FOUR, EIGHT, PIXELS = 16, 8, 4, 8, 2


def fours(w: Array, block: int) -> Array:
    """Weights int8 [out, k] as words int32 [out / 4, words]: one block of each of four channels, then the next."""
    rows = padded(padded(w, block, 1), FOUR, 0)
    blocks = rows.reshape(len(rows) // FOUR, FOUR, -1, block).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(blocks).reshape(len(blocks), -1).view("<i4")


def eights(out: int) -> Array:
    """The order of channels in which the kernels store eight of them at once: even and odd ones of each eight, then the
    others."""
    order = np.arange(out // EIGHT * EIGHT).reshape(-1, FOUR, 2).transpose(0, 2, 1).ravel()
    return np.concatenate([order, np.arange(order.size, out)])


def packed_fours(c: Channels) -> Array:
    """Bias, weights and multiplier of every four channels for int16 activations, int32 [out / 4, words]."""
    starts, mult = (padded(v, FOUR).reshape(-1, FOUR) for v in (c.bias, c.mult))
    return np.concatenate([starts, fours(c.weights, BLOCK_S16), mult], 1).astype(np.int32)


def stored(packed: Array) -> Weights:
    """Where the weights lie in ``packed_fours``: between biases and multipliers."""
    return Weights(rows=len(packed), head=4 * FOUR, tail=4 * FOUR)
