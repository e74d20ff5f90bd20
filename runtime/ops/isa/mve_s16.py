"""Channels of int16 and int8 as the kernels on Helium read them: kernels_c/isa/mve/mve_tile_s16.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.graph import Array
from twinfer.runtime.ops.core.packing import padded
from twinfer.runtime.ops.core.requantize_s16 import Channels
from twinfer.runtime.ops.isa.mve import BLOCK_S16, FOUR, fours
from twinfer.runtime.program import Weights


def packed_fours(c: Channels) -> Array:
    """Bias, weights and multiplier of every four channels, int32 [out / 4, words]."""
    starts, mult = (padded(v, FOUR).reshape(-1, FOUR) for v in (c.bias, c.mult))
    return np.concatenate([starts, fours(c.weights, BLOCK_S16), mult], 1).astype(np.int32)


def stored(packed: Array) -> Weights:
    """Where the weights lie in ``packed_fours``: between biases and multipliers."""
    return Weights(rows=len(packed), head=4 * FOUR, tail=4 * FOUR)
