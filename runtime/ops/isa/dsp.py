"""Weights as the kernels on the DSP extension read them: kernels_c/isa/dsp/dsp_tile.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.graph import Array
from twinfer.runtime.ops.core.packing import padded
from twinfer.runtime.variant import accept

#: Pixels of a panel, and the bound of the second channel's sum: dsp_tile.h.
PIXELS, MOST = 3, 1 << 23


def pairs(w: Array, multiple: int) -> tuple[Array, int]:
    """Weights int8 [out, k] as words int32 [out / 2, k4 / 2], with out padded to a multiple; and the chunk: words after
    which the second channels' sums must be read out. Raises ``Declined`` as ``halves`` does."""
    k = padded(padded(w.astype(np.int32), 4, 1), multiple, 0)
    words = halves(k).reshape(len(k) // 2, -1, 4)[..., [0, 2, 1, 3]].reshape(len(k) // 2, -1)
    return np.ascontiguousarray(words, "<i2").view("<i4"), _chunk(k[1::2])


def halves(k: Array) -> Array:
    """Every two neighbouring channels of k [out, k] in halves of words; Declined if two weights do not fit."""
    both = 256 * k[1::2] + k[0::2]
    accept(int(both.min()) >= -(1 << 15), "a weight of -128 lies beside a negative one")
    return np.asarray(both)


def _chunk(second: Array) -> int:
    """Words of packed weights after which the sums of the second channels [out / 2, k4] must be read out."""
    fours = np.abs(second).reshape(len(second), -1, 4).sum(2) * 128
    size = int(fours.shape[1])
    while max(int(fours[:, i : i + size].sum(1).max()) for i in range(0, fours.shape[1], size)) >= MOST:
        size = -(-size // 2)
    return 2 * size
