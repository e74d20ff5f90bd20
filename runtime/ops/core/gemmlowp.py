"""gemmlowp's transcendental functions in fixed point, for int64 arrays that hold int32 raw values.

``Qm`` below means a raw int32 with m integer bits: real = raw / 2**(31 - m). Source: gemmlowp fixedpoint.h.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.fixed_point import multiply_high, quantize_multiplier, requantize, round_shift

Raw = NDArray[np.int64]

ONE = (1 << 31) - 1  # one in Q0, which cannot hold it exactly
_LOW = -(1 << 31)
_EXP_MINUS_EIGHTH = 1895147668
_THIRD = 715827883
_EXP_OF_MINUS_POWER = ((-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308), (2, 39332535), (3, 720401))
_EXP_MINUS_16 = 242
_48_OVER_17 = 1515870810
_MINUS_32_OVER_17 = -1010580540


def _exp_of_last_quarter(a: Raw) -> Raw:
    """exp(a) in Q0 for a in Q0, -1/4 <= a < 0: a Taylor series around -1/8."""
    x = a + (1 << 28)
    x2 = multiply_high(x, x)
    x3, x4 = multiply_high(x2, x), multiply_high(x2, x2)
    tail = round_shift(multiply_high(round_shift(x4, 2) + x3, _THIRD) + x2, 1)
    return _EXP_MINUS_EIGHTH + multiply_high(x + tail, _EXP_MINUS_EIGHTH)


def exp_of_negative(a: NDArray[Any], bits: int) -> Raw:
    """exp(a) in Q0 for a <= 0 in Q``bits``, ``bits`` at most 5."""
    a = np.asarray(a, np.int64)
    fraction = 31 - bits
    quarter = 1 << (fraction - 2)
    last = (a & (quarter - 1)) - quarter
    result = _exp_of_last_quarter(last << bits)
    for power, factor in (*_EXP_OF_MINUS_POWER, (4, _EXP_MINUS_16)):
        if power < bits:
            result = np.where((last - a) & (1 << (fraction + power)), multiply_high(result, factor), result)
    return np.where(a == 0, ONE, result)


def _inverse(a: Raw) -> Raw:
    """2 / (1 + a) in Q2 for a in Q0, 0 <= a <= 1: three Newton steps."""
    half = (a + ONE + 1) >> 1
    x = _48_OVER_17 + multiply_high(half, _MINUS_32_OVER_17)
    for _ in range(3):
        x = x + (multiply_high(x, (1 << 29) - multiply_high(half, x)) << 2)
    return x


def one_over_one_plus(a: Raw) -> Raw:
    """1 / (1 + a) in Q0 for a in Q0, 0 <= a <= 1."""
    return np.asarray(np.minimum(_inverse(a) << 1, ONE))


def logistic(a: NDArray[Any], bits: int) -> Raw:
    """1 / (1 + exp(-a)) in Q0 for a in Q``bits``."""
    a = np.asarray(a, np.int64)
    positive = one_over_one_plus(exp_of_negative(-np.abs(a), bits))
    return np.where(a == 0, 1 << 30, np.where(a > 0, positive, ONE - positive))


def tanh(a: NDArray[Any], bits: int) -> Raw:
    """tanh(a) in Q0 for a in Q``bits``, ``bits`` at most 4."""
    a = np.asarray(a, np.int64)
    positive = np.clip((_inverse(exp_of_negative(-np.abs(a), bits + 1)) - (1 << 29)) << 2, _LOW, ONE)
    return np.asarray(np.sign(a) * positive)


def input_radius(bits: int, shift: int) -> int:
    """Largest magnitude that stays below 2**bits after a left shift by ``shift`` and a multiplication by less than one.

    Source: TFLM quantization_util.cc, CalculateInputRadius.
    """
    return math.floor(math.ldexp(((1 << bits) - 1) * float(1 << (31 - bits)), -shift))


def to_q4(x: Raw, scale: float) -> tuple[Raw, Raw]:
    """``x * scale`` in Q4, valid inside its range; and where x lies: 0 inside, -1 below, 1 above.

    Source: the range radius of TFLM's int8 Logistic and Tanh. A scale above 15 leaves nothing inside, not even 0.
    """
    real = scale * (1 << 27)
    radius = input_radius(4, math.frexp(real)[1])
    mult, shift = quantize_multiplier(real)
    outside = np.where(x >= radius, 1, 0)
    outside = np.where(x <= -radius, -1, outside)
    return np.where(outside, 0, requantize(np.where(outside, 0, x), mult, shift)), outside


def inverse_root(x: NDArray[Any]) -> tuple[Raw, Raw]:
    """1 / sqrt(x) as (mult, right): mult * 2**-(31 + right), for 0 <= x < 2**31, of any shape; 0 counts as 1.

    Source: TFLM quantization_util's GetInvSqrtQuantizedMultiplierExp: five Newton steps in Q3.
    """
    given = np.asarray(x, np.int64)
    x = np.maximum(given, 2)
    fours = np.maximum((np.frexp(x)[1] - 28) // 2, 0)
    value, right = x >> 2 * fours, 11 + fours.astype(np.int64)
    pairs = (31 - np.frexp(value)[1]) // 2 - 1
    right -= pairs
    value = value << 2 * pairs >> 1
    half, y = round_shift(value, 1), np.full(x.shape, 1 << 28, np.int64)
    for _ in range(5):
        cube = np.clip(multiply_high(multiply_high(y, y), y) << 6, _LOW, ONE)
        y = np.clip((multiply_high(np.array(3 << 27), y) - multiply_high(half, cube)) << 3, _LOW, ONE)
    mult = multiply_high(y, 1518500250)  # sqrt(1 / 2)
    mult, right = mult << np.maximum(-right, 0), np.maximum(right, 0)
    return np.where(given <= 1, ONE, mult), np.where(given <= 1, 0, right)


def log(x: Raw) -> Raw:
    """log(x) in Q5 for x >= 1 in Q12: a rational function around the nearest power of 2 or its root.

    Source: TFLM log_x_for_x_greater_than_or_equal_to_1.
    """
    x = np.asarray(x, np.int64)
    half, root = 1518500250, 1805811301  # sqrt(1 / 2), and its root
    less = multiply_high(x, half)
    lead, other = (np.vectorize(lambda v: 32 - int(v).bit_length(), otypes=[np.int64])(v) for v in (x, less))
    other = other - 1
    near = np.minimum(multiply_high(x << (lead - 1), half) << 1, ONE)
    r = np.minimum(near, np.minimum(x << other, ONE))
    power = np.maximum(((12 - lead) << 25) + (1 << 23), ((12 - other) << 25) - (1 << 23))
    p, q = (r + root + 1) >> 1, 2 * (r - root)
    square = multiply_high(q, q)
    top = multiply_high(q, r) + multiply_high(multiply_high(q, square), 117049297)
    below = multiply_high(p, 1057819769 + q + multiply_high(square, 127690142)) + multiply_high(q, 638450708)
    scaled = multiply_high(round_shift(top, 6), one_over_one_plus(below))
    return np.asarray((multiply_high(power, 1488522236) + scaled) << 1)
