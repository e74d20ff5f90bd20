"""Weights as the kernels on Helium read them: kernels_c/isa/mve/mve_tile.h and mve_tile_s16.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.graph import Array
from twinfer.runtime.ops.core.packing import padded

#: Products of one instruction: of int8, of int16 and int8. Channels of a tile.
BLOCK_S8, BLOCK_S16, FOUR = 16, 8, 4


def fours(w: Array, block: int) -> Array:
    """Weights int8 [out, k] as words int32 [out / 4, words]: of four channels a block each, then the next blocks."""
    rows = padded(padded(w, block, 1), FOUR, 0)
    blocks = rows.reshape(len(rows) // FOUR, FOUR, -1, block).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(blocks).reshape(len(blocks), -1).view("<i4")
