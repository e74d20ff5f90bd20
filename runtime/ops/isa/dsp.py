"""Weights as the kernels on the DSP extension read them: kernels_c/isa/dsp/dsp_tile.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.graph import Array
from twinfer.runtime.ops.core import requantize_s16
from twinfer.runtime.ops.core.packing import padded
from twinfer.runtime.ops.core.requantize import BOUND, EITHER
from twinfer.runtime.variant import accept

#: Pixels of a panel, and the bound of the second channel's sum: dsp_tile.h.
PIXELS, MOST = 3, 1 << 23

#: The least half of a word.
_LEAST = -(1 << 15)


def pairs(w: Array, multiple: int, *, bytes: bool = False) -> tuple[Array, int]:
    """Weights int8 [out, k] as words int32 [out / 2, k4 / 2], with out padded to a multiple; and the chunk: words after
    which the second channels' sums must be read out. Unless stored as ``bytes``, raises ``Declined`` as ``halves``."""
    k = padded(padded(w.astype(np.int32), 4, 1), multiple, 0)
    both = 256 * k[1::2] + (k[0::2] & 255) if bytes else halves(k)
    words = both.reshape(len(k) // 2, -1, 4)[..., [0, 2, 1, 3]].reshape(len(k) // 2, -1)
    return np.ascontiguousarray(words, "<i2").view("<i4"), _chunk(k[1::2])


def fours(w: Array, *, bytes: bool = False) -> Array:
    """Weights int8 [out, k] as ``alternating`` words; Declined if sums over a row do not fit, or as ``pairs`` says."""
    words, chunk = pairs(w, 4, bytes=bytes)
    accept(chunk >= words.shape[1], "the sums over a row do not fit half a word")
    return alternating(words)


def fours_s16(w: Array) -> Array:
    """Weights int8 [out, k] for int16 activations, int32 [out / 4, k4]: halves of two channels, where two pairs of
    channels alternate by two weights (kernels_c/isa/dsp/dsp_tile_s16.h). Raises ``Declined`` as ``halves``."""
    k = padded(padded(w.astype(np.int32), 4, 1), 4, 0)
    pairs = halves(k).reshape(len(k) // 4, 2, -1, 2).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(pairs, "<i2").reshape(len(pairs), -1).view("<i4")


def pairs_s16(c: requantize_s16.Channels) -> tuple[Array, Array]:
    """Channels for int16 activations as tiles of three pixels take them: weights int32 [out / 2, words], whose bytes
    are those of two channels by turns; biases and multipliers int32 [out / 2, 2, 2] (dsp_tile_s16.h)."""
    k = padded(padded(c.weights, 4, 1), 2)
    both = np.ascontiguousarray(k.reshape(len(k) // 2, 2, -1, 2).transpose(0, 2, 3, 1))
    ends = np.stack([padded(values, 2).reshape(-1, 2) for values in (c.bias, c.mult)], 1)
    return both.reshape(len(both), -1).view("<i4"), ends


def need_bytes(w: Array) -> bool:
    """Whether weights int8 [out, k] do not fit halves and must be stored as bytes."""
    k = padded(w.astype(np.int32), 2)
    return bool((_both(k) < _LEAST).any())


def alternating(words: Array) -> Array:
    """Words of pairs as [out / 4, k4 / 4, 2, 2]: two pairs of channels alternate by two words."""
    return np.ascontiguousarray(words.reshape(len(words) // 2, 2, -1, 2).transpose(0, 2, 1, 3))


def most_of(w: Array, starts: Array) -> Array:
    """A bound of the magnitude of sums that begin with ``starts`` [...], weights int8 [..., k]."""
    return np.asarray(np.abs(starts.astype(np.int64)) + 128 * np.abs(w.astype(np.int64)).sum(-1))


def need_short(most: int, shift: int) -> None:
    """Declined unless ``tw_scaled_either`` (kernels_c/isa/dsp/dsp.h) takes sums up to ``most`` with this shift."""
    fits = shift >= EITHER and most << max(shift, 0) < BOUND
    accept(fits, f"sums up to {most} with a shift of {shift} do not fit the short requantisation")


def halves(k: Array) -> Array:
    """Every two neighbouring channels of k [out, k] in halves of words; Declined if two weights do not fit."""
    both = _both(k)
    accept(int(both.min()) >= _LEAST, "a weight of -128 lies beside a negative one")
    return both


def _both(k: Array) -> Array:
    return np.asarray(256 * k[1::2] + k[0::2])


def _chunk(second: Array) -> int:
    """Words of packed weights after which the sums of the second channels [out / 2, k4] must be read out."""
    fours = np.abs(second).reshape(len(second), -1, 4).sum(2) * 128
    size = int(fours.shape[1])
    while max(int(fours[:, i : i + size].sum(1).max()) for i in range(0, fours.shape[1], size)) >= MOST:
        size = -(-size // 2)
    return 2 * size
