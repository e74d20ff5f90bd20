"""Channels brought into the range of the short requantisation give the same outputs as before."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from twinfer.runtime.fixed_point import requantize, requantize_wide, wrap32
from twinfer.runtime.graph import Node
from twinfer.runtime.op import tensor
from twinfer.runtime.ops.core.channels import multipliers
from twinfer.runtime.ops.core.requantize import BOUND, SHIFTS, Channels, fast_channels
from twinfer.runtime.ops.core.requantize_s16 import short_channels

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


@given(st.lists(INT8, min_size=1, max_size=5), BIAS)
@example([3], 0)
@example([-3], 0)
@example([5, -7], 11)
def test_ends_are_the_least_and_the_greatest_sum(w: list[int], bias: int) -> None:
    sums = [bias + sum(a * b for a, b in zip(w, x, strict=True)) for x in product((-128, 127), repeat=len(w))]
    least, most = channel(w, bias, 2**30, -1, 0, (-128, 127)).ends()
    assert (int(least[0]), int(most[0])) == (min(sums), max(sums))


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


def wide_node(w: list[int], bias: int, scale: float, activation: str) -> Node:
    """FULLY_CONNECTED of int16 and int8 with one output, whose multiplier is ``scale``."""
    x, y = tensor((1, len(w)), "INT16", 1.0), tensor((1, 1), "INT16", 1.0)
    weights, b = (
        tensor((1, len(w)), "INT8", scale, data=np.array([w])),
        tensor((1,), "INT64", 1.0, data=np.array([bias])),
    )
    return Node("FULLY_CONNECTED", (x, weights, b), (y,), {"fused_activation_function": activation})


@given(
    st.lists(INT8, min_size=1, max_size=9), st.sampled_from([1, 60, 700]),
    st.one_of(BIAS, st.integers(-(2**40), 2**40)), st.floats(2**14, 2**15), st.integers(-46, -8),
    st.sampled_from(["NONE", "RELU"]),
)  # fmt: skip
@example([127], 700, 0, 2**14, -29, "NONE")
@example([127], 700, 0, 2**14, -28, "RELU")
@example([-128], 516, 0, 2**15 - 1, -16, "NONE")
@example([127, -127], 258, -(2**31) + 2**28, 2**14, -32, "NONE")
@example([3], 1, 2**31 - 98305, 2**14 + 1, -32, "NONE")
@example([0], 1, 2**40, 2**14, -46, "NONE")
@example([1], 9, 5, 0.0, -20, "RELU")
def test_short_channels(w: list[int], times: int, bias: int, mult: float, shift: int, activation: str) -> None:
    node = wide_node(w * times, bias, mult * 2.0**shift, activation)
    fast = short_channels(node, node.constant(1))
    reach = abs(bias) + 2**15 * times * sum(map(abs, w))
    if fast is None:
        assert shift not in range(-31, -16) or reach >= 2**31, node
        return
    k = len(w) * times
    x = np.random.default_rng(k).integers(-(2**15), 2**15, (60, k))
    extremes = np.where(node.constant(1) > 0, 2**15 - 1, -(2**15))
    x = np.concatenate([x, x // 512, extremes, -1 - extremes, np.full((1, k), -(2**15))]).astype(np.int64)
    want = requantize_wide(x @ node.constant(1)[0].astype(np.int64) + bias, *multipliers(node, 1))
    sums = (x @ fast.weights[0].astype(np.int64) + int(fast.bias[0])).clip(-(2**31), 2**31 - 1)
    results = (sums * int(fast.mult[0]) + 2**31) >> 32
    assert np.array_equal(results.clip(fast.low, fast.high), want.clip(fast.low, fast.high))
