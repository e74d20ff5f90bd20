"""Channels in the short requantisation's range give the outputs of the ones they stand for."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from twinfer.runtime.fixed_point import requantize, wrap32
from twinfer.runtime.ops._requantize import BOUND, SHIFTS, Channels, fast_channels

INT8 = st.integers(-128, 127)
BIAS = st.one_of(st.integers(-(2**16), 2**16), st.integers(-(2**31), 2**31 - 1))
MULT = st.one_of(st.just(0), st.integers(2**30, 2**31 - 1))


def channel(w: list[int], bias: int, mult: int, shift: int, zero: int, ends: tuple[int, int]) -> Channels:
    return Channels(
        np.array([w], np.int8), np.array([bias], np.int32), np.array([mult], np.int32), np.array([shift], np.int8),
        zero, min(ends), max(ends),
    )  # fmt: skip


def results(c: Channels, x: np.ndarray) -> np.ndarray:
    """Outputs [n] of one channel over inputs x [n, k], as the plain kernel computes them."""
    sums = wrap32(x.astype(np.int64) @ c.weights[0].astype(np.int64) + int(c.bias[0]))
    return wrap32(requantize(sums, c.mult, c.shift) + c.out_zero).clip(c.low, c.high)


@given(st.lists(INT8, min_size=1, max_size=9), BIAS, MULT, st.integers(-31, 30), INT8, st.tuples(INT8, INT8))
@example([0, 0], 2**30, 2**31 - 1, -31, -128, (-128, 127))
@example([0, 0], 2**30, 2**30, -22, -128, (-128, 127))
@example([5, -5], 2**31 - 1, 2**31 - 1, 0, 127, (-128, 127))
@example([0, 0], 2**31 - 1, 2**31 - 1, 0, 127, (-128, 127))
@example([3, 4], 17, 0, 0, 5, (-128, 127))
@example([1], 2**30 - 129, 2**30, -22, 0, (-128, 127))
@example([-128], 2**30 - 128 * 128, 2**30, -22, 0, (-128, 127))
def test_same_outputs(w: list[int], bias: int, mult: int, shift: int, zero: int, ends: tuple[int, int]) -> None:
    c = channel(w, bias, mult, shift, zero, ends)
    fast = fast_channels(c)
    if fast is None:
        assert shift not in range(SHIFTS[0], SHIFTS[1] + 1) or abs(bias) + 128 * 128 * len(w) >= BOUND
        return
    assert SHIFTS[0] <= fast.shift[0] <= SHIFTS[1]
    assert fast.mult[0] >= 1 << 30
    assert all(abs(int(end[0])) < BOUND for end in fast.ends())
    k = len(w)
    x = np.random.default_rng(k).integers(-128, 128, (200, k))
    extremes = np.where(c.weights > 0, 127, -128)
    x = np.concatenate([x, extremes, -1 - extremes, np.full((1, k), 127), np.full((1, k), -128)])
    assert np.array_equal(results(c, x), results(fast, x))


def test_dead_channels_are_fast() -> None:
    for bias, mult, shift in ((2**30, 2**30 + 5, -27), (-(2**31), 2**30, -31), (12345, 0, 0), (7, 2**30, 0)):
        fast = fast_channels(channel([0] * 9, bias, mult, shift, -128, (-128, 127)))
        assert fast is not None
        assert not fast.weights.any()
        assert abs(int(fast.bias[0])) < 1024


def test_one_slow_channel_is_enough() -> None:
    slow = Channels(np.ones((2, 3), np.int8), np.zeros(2, np.int32), np.full(2, 2**30, np.int32),
                    np.array([-5, 0], np.int8), 0, -128, 127)  # fmt: skip
    assert fast_channels(slow) is None
