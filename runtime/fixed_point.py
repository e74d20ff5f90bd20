"""gemmlowp's fixed-point arithmetic as TFLM rounds it (twice): what kernels_c/core/tw.h does, in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def quantize_multiplier(real: float) -> tuple[int, int]:
    """``quantize_multipliers`` of one number."""
    mult, shift = quantize_multipliers(np.array([real]))
    return int(mult[0]), int(shift[0])


def quantize_multipliers(real: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Every ``real`` as ``mult`` and ``shift``: real ~ mult * 2**(shift - 31), mult in [2**30, 2**31) or 0.

    Source: TFLite's QuantizeMultiplier; mantissas round half away from zero, and values below 2**-32 become 0.
    OverflowError for what is infinite or not a number.
    """
    if not np.isfinite(real).all():
        raise OverflowError("a multiplier is infinite or not a number")
    mantissa, shift = np.frexp(real)
    size = (np.abs(mantissa) * (1 << 31) + 0.5).astype(np.int64)
    carried = size >> 31  # 1 where the mantissa was rounded up to 1
    size, shift = size >> carried, shift + carried
    mult = np.where(real < 0, -size, size)
    if shift.size and (shift.min() < -31 or shift.max() > 30):
        small = shift < -31
        mult = np.where(shift > 30, (1 << 31) - 1, np.where(small, 0, mult))
        shift = np.where(small, 0, np.minimum(shift, 30))
    return mult.astype(np.int32), shift.astype(np.int8)


def multiply_high(a: NDArray[Any], b: NDArray[Any] | int) -> NDArray[np.int64]:
    """a * b / 2**31 rounded half up, for int32 values held in int64."""
    return (np.asarray(a, np.int64) * np.asarray(b, np.int64) + (1 << 30)) >> 31


def round_shift(x: NDArray[Any], exponent: NDArray[Any] | int) -> NDArray[np.int64]:
    """x / 2**exponent rounded half away from zero, exponent >= 0."""
    x = np.asarray(x, np.int64)
    e = np.asarray(exponent, np.int64)
    mask = (np.int64(1) << e) - 1
    threshold = (mask >> 1) + (x < 0)
    return np.asarray((x >> e) + ((x & mask) > threshold), np.int64)


def wrap32(x: NDArray[Any]) -> NDArray[np.int64]:
    """int64 values wrapped to int32's range, as two's complement arithmetic does."""
    return np.asarray(x, np.int64).astype(np.int32).astype(np.int64)


def reduced_multiplier(mult: NDArray[Any] | int) -> NDArray[np.int32]:
    """A multiplier of 31 bits rounded to 15 bits, for sums of 64 bits."""
    rounded = (np.asarray(mult, np.int64) + (1 << 15)) >> 16
    return np.asarray(np.minimum(rounded, 0x7FFF), np.int32)


def requantize_wide(x: NDArray[Any], mult: NDArray[Any] | int, shift: NDArray[Any] | int) -> NDArray[np.int64]:
    """x * mult * 2**(shift - 31) for sums of 64 bits, shift at most 7: TFLM's MultiplyByQuantizedMultiplier of int64.

    Its multiplier has 15 bits, and it rounds half up, once.
    """
    right = 15 - np.asarray(shift, np.int64)
    product = np.asarray(x, np.int64) * reduced_multiplier(mult).astype(np.int64)
    return wrap32((product + (np.int64(1) << (right - 1))) >> right)


def requantize(x: NDArray[Any], mult: NDArray[Any] | int, shift: NDArray[Any] | int) -> NDArray[np.int64]:
    """x * mult * 2**(shift - 31) with TFLM's double rounding (MultiplyByQuantizedMultiplier); broadcasts."""
    shift = np.asarray(shift, np.int64)
    left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
    return round_shift(multiply_high(wrap32(np.asarray(x, np.int64) << left), mult), right)
