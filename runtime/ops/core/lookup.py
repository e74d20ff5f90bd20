"""Tables of 513 int16 values for functions of one int16 value, interpolated: what kernels_c/core/lookup.h does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.graph import Array

_LOW, _HIGH = -(1 << 15), (1 << 15) - 1
_HUGE = np.float32(1e30)  # far beyond every table; differences of two such values are numbers


def table_s16(function: Callable[[Array], Array], low: float, high: float, steps: float) -> NDArray[np.int16]:
    """513 samples of ``function`` (of float32 arrays) from ``low`` to ``high``, ``steps`` per 1, saturated.

    Each is corrected by half the error of interpolation in the middle. Source: LiteRT's LUTPopulateInt16 and TFLM's
    gen_lut, in float32. Infinite values, of which these make a NaN, saturate.
    """
    low32, per1 = np.float32(low), np.float32(steps)
    step = (np.float32(high) - low32) / np.float32(512)
    at = low32 + np.arange(512, dtype=np.float32) * step
    after = low32 + np.arange(1, 513, dtype=np.float32) * step
    sample, middle, following = (_scaled(function(v), per1) for v in (at, at + step / 2, after))
    error = _rounded((following + _rounded(sample)) / 2) - _rounded(middle)
    last = _rounded(_scaled(function(np.array(high, np.float32)), per1))
    return np.append(_rounded(sample) - _rounded(error / 2), last).clip(_LOW, _HIGH).astype(np.int16)


def _scaled(x: Array, steps: np.float32) -> Array:
    with np.errstate(over="ignore"):
        return (np.asarray(x, np.float32) * steps).clip(-_HUGE, _HUGE)


def _rounded(x: Array) -> Array:
    """Half away from zero, in float32."""
    return np.copysign(np.floor(np.abs(x).astype(np.float64) + 0.5), x).astype(np.float32)


def lookup_s16(table: NDArray[np.int16], x: Array) -> NDArray[np.int64]:
    """The table's values at ``x``, clamped to int16: between two samples, 1/128 of the way per step, rounded."""
    values, at = table.astype(np.int64), x.astype(np.int64).clip(_LOW, _HIGH) + (1 << 15)
    i = at >> 7
    return np.asarray(values[i] + (((values[i + 1] - values[i]) * (at & 127) + 64) >> 7))
