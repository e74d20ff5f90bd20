"""gemmlowp's transcendental functions in fixed point of 16 bits, for int64 arrays that hold int16 raw values.

``Qm`` below means a raw int16 with m integer bits: real = raw / 2**(15 - m). Source: gemmlowp fixedpoint.h.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.fixed_point import round_shift

Raw = NDArray[np.int64]

ONE = (1 << 15) - 1  # one in Q0, which cannot hold it exactly

#: gemmlowp rounds its constants of 32 bits to 16.
_EXP_MINUS_EIGHTH, _THIRD, _48_OVER_17, _MINUS_32_OVER_17 = 28918, 10923, 23130, -15420
_EXP_OF_MINUS_POWER = ((-2, 25520), (-1, 19875), (0, 12055), (1, 4435), (2, 600), (3, 11), (4, 0))


def _times(a: Raw | int, b: Raw | int) -> Raw:
    """a * b / 2**15 rounded half up."""
    return np.asarray((np.asarray(a, np.int64) * b + (1 << 14)) >> 15)


def _raised(x: Raw, bits: int) -> Raw:
    """x * 2**bits, saturated."""
    return np.asarray(np.clip(np.asarray(x, np.int64) << bits, -ONE - 1, ONE))


def _exp_of_last_quarter(a: Raw) -> Raw:
    """exp(a) in Q0 for a in Q0, -1/4 <= a < 0: a Taylor series around -1/8."""
    x = a + (1 << 12)
    x2 = _times(x, x)
    x3, x4 = _times(x2, x), _times(x2, x2)
    tail = round_shift(_times(round_shift(x4, 2) + x3, _THIRD) + x2, 1)
    return np.minimum(_EXP_MINUS_EIGHTH + _times(_EXP_MINUS_EIGHTH, x + tail), ONE)


def _exp_of_negative(a: Raw, bits: int) -> Raw:
    """exp(a) in Q0 for a <= 0 in Q``bits``, ``bits`` at most 7; 0 below -32."""
    fraction = 15 - bits
    quarter = 1 << (fraction - 2)
    last = (a & (quarter - 1)) - quarter
    result = _exp_of_last_quarter(_raised(last, bits))
    for power, factor in _EXP_OF_MINUS_POWER:
        if power < bits:
            result = np.where((last - a) & (1 << (fraction + power)), _times(result, factor), result)
    if bits > 5:
        result = np.where(a < -(32 << fraction), 0, result)
    return np.where(a == 0, ONE, result)


def _inverse(a: Raw) -> Raw:
    """2 / (1 + a) in Q2 for a in Q0, 0 <= a <= 1: three Newton steps."""
    half = (a + ONE + 1) >> 1
    x = _48_OVER_17 + _times(half, _MINUS_32_OVER_17)
    for _ in range(3):
        x = x + _raised(_times(x, (1 << 13) - _times(half, x)), 2)
    return x


def logistic(a: NDArray[Any], bits: int) -> Raw:
    """1 / (1 + exp(-a)) in Q0 for a in Q``bits``."""
    a = np.asarray(a, np.int64)
    positive = _raised(_inverse(_exp_of_negative(-np.abs(a), bits)), 1)
    return np.where(a == 0, 1 << 14, np.where(a > 0, positive, ONE - positive))


def tanh(a: NDArray[Any], bits: int) -> Raw:
    """tanh(a) in Q0 for a in Q``bits``, ``bits`` at most 6."""
    a = np.asarray(a, np.int64)
    positive = _raised(_inverse(_exp_of_negative(-np.abs(a), bits + 1)) - (1 << 13), 2)
    return np.asarray(np.sign(a) * positive)
