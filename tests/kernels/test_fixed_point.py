"""Fixed-point arithmetic in numpy against gemmlowp's definitions, written with Python's integers and fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from twinfer.runtime import fixed_point

INT32 = st.integers(-(2**31), 2**31 - 1)


def doubling_high(a: int, b: int) -> int:
    """SaturatingRoundingDoublingHighMul: nudge by the product's sign, then divide truncating towards zero."""
    if a == b == -(2**31):
        return 2**31 - 1
    product = a * b
    nudged = product + ((1 << 30) if product >= 0 else 1 - (1 << 30))
    return math.trunc(Fraction(nudged, 1 << 31))


def divide_by_power(x: int, exponent: int) -> int:
    """RoundingDivideByPOT: to the nearest, halves away from zero."""
    quotient = Fraction(abs(x), 1 << exponent)
    return int(math.copysign(math.floor(quotient + Fraction(1, 2)), x))


@given(INT32, st.integers(0, 2**31 - 1))
@example(-(2**30), 1)
@example(-3 * 2**30, 1)
@example(-(2**31), 2**31 - 1)
def test_multiply_high(a: int, b: int) -> None:
    assert int(fixed_point.multiply_high(np.array(a), b)) == doubling_high(a, b)


@given(INT32, st.integers(0, 31))
@example(-(2**31), 31)
@example(-1, 1)
@example(2**31 - 1, 31)
def test_round_shift(x: int, exponent: int) -> None:
    assert int(fixed_point.round_shift(np.array(x), exponent)) == divide_by_power(x, exponent)


@given(st.integers(-(2**20), 2**20), st.floats(1e-9, 30.0))
def test_requantize_is_two_roundings(x: int, real: float) -> None:
    mult, shift = fixed_point.quantize_multiplier(real)
    want = divide_by_power(doubling_high(x << max(shift, 0), mult), max(-shift, 0))
    assert int(fixed_point.requantize(np.array(x), mult, shift)) == want
    assert abs(want - x * real) <= 1 + abs(x * real) * 2**-30


@given(st.floats(2.0**-31, 2.0**30))
def test_multiplier_is_close(real: float) -> None:
    mult, shift = fixed_point.quantize_multiplier(real)
    assert 2**30 <= mult < 2**31
    assert math.ldexp(mult, shift - 31) == pytest.approx(real, rel=2**-31)


@pytest.mark.parametrize(
    ("real", "want"),
    [(0.0, (0, 0)), (1.0, (1 << 30, 1)), (0.5, (1 << 30, 0)), (1 - 2**-33, (1 << 30, 1)), (2.0**-40, (0, 0)),
     (2.0**31, ((1 << 31) - 1, 30)), (2.0**-32, (1 << 30, -31)), (2.0**-33, (0, 0)), (2.0**29, (1 << 30, 30)),
     (2.0**30, ((1 << 31) - 1, 30))],
)  # fmt: skip
def test_multiplier_at_the_ends(real: float, want: tuple[int, int]) -> None:
    assert fixed_point.quantize_multiplier(real) == want


@given(st.integers(2**30, 2**31 - 1))
@example(0x7FFEFFFF)
@example(0x7FFF0000)
@example(0x7FFF7FFF)
@example(0x7FFF8000)
@example(2**31 - 1)
def test_reduced_multiplier_has_15_bits(mult: int) -> None:
    """TFLM's MultiplyByQuantizedMultiplier for int64 rounds; if that takes 16 bits, it takes the greatest 15-bit
    value."""
    want = min(math.floor(Fraction(mult, 1 << 16) + Fraction(1, 2)), (1 << 15) - 1)
    assert int(fixed_point.reduced_multiplier(mult)) == want
