"""Sums over 16 lanes that end in one rounding: the bits of two, at every shift, for every kind of clamp."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from cases import outputs_of, with_common_instances
from hypothesis import given
from hypothesis import strategies as st
from needs import need_tools
from numpy.typing import NDArray

from twinfer.aot.build.firmware import build
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.converter.build import Builder
from twinfer.runtime.fixed_point import quantize_multiplier, requantize, wrap32
from twinfer.runtime.graph import Graph
from twinfer.runtime.ops.core.channels import FAST_RIGHT
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import HOST

#: Channels of a layer: two blocks of 16 and a part of one.
CHANNELS = 37

#: The least and the most that a sum can be, 0, and what lies beside them.
EDGES = (-(2**31), 1 - 2**31, -1, 0, 1, 2**31 - 1)

Sums = NDArray[np.int32]


def layer(scales: NDArray[np.float32], sums: Sums, zero: int, activation: str) -> Graph:
    """A layer whose weights are 0: its sums are its biases."""
    b = Builder("sums")
    weights = b.constant(np.zeros((len(sums), 4), np.int8), scales)
    inputs = [b.input("x", "INT8", (1, 4), 1.0), weights, b.constant(sums)]
    y = b.op("FULLY_CONNECTED", inputs, (1, len(sums)), "INT8", 1.0, zero, fused_activation_function=activation)
    return b.graph([y])


def outputs(scales: NDArray[np.float32], sums: Sums, zero: int, activation: str) -> tuple[Sums, bool]:
    """What becomes of sums by the kernel over 16 lanes, and whether it rounds once."""
    plan = make_plan(layer(scales, sums, zero, activation), HOST)
    (step,) = plan.steps
    assert step.call.kernel == "tw_fully_connected_wide_s8"
    (values,) = outputs_of(Session(plan), [np.zeros((1, 4), np.int8)])
    return values[0].astype(np.int32), bool(step.call.params["fast"])


def expected(scales: NDArray[np.float32], sums: Sums, zero: int, activation: str) -> Sums:
    """The same in two roundings, as TFLM has it."""
    mult, shift = (np.array(each) for each in zip(*map(quantize_multiplier, scales.astype(np.float64)), strict=True))
    low = {"NONE": -128, "RELU": max(zero, -128)}[activation]
    return np.asarray(wrap32(requantize(sums, mult, shift) + zero).clip(low, 127), np.int32)


def scales_at(rng: np.random.Generator, shift: int) -> NDArray[np.float32]:
    """Scales of multipliers from one half to almost 1, shifted."""
    return np.ldexp(rng.uniform(0.5, 0.9999, CHANNELS), shift).astype(np.float32)


def sums_at(rng: np.random.Generator, scale: NDArray[np.float32]) -> Sums:
    """Sums whose outputs are near the ends and near halves, and the extremes of int32."""
    near = rng.uniform(-300, 300, CHANNELS).round(1) / scale + rng.integers(-2, 3, CHANNELS)
    sums = near.clip(-(2**31), 2**31 - 1).astype(np.int64).astype(np.int32)
    sums[: len(EDGES)] = EDGES
    return np.asarray(rng.permutation(sums))


@pytest.mark.parametrize("activation", ["NONE", "RELU"])
@pytest.mark.parametrize("shift", range(-FAST_RIGHT - 2, 3))
def test_every_shift(shift: int, activation: str) -> None:
    rng = np.random.default_rng(1000 + shift)
    for zero in (-128, -7, 0, 127):
        scales = scales_at(rng, shift)
        sums = sums_at(rng, scales)
        values, once = outputs(scales, sums, zero, activation)
        np.testing.assert_array_equal(values, expected(scales, sums, zero, activation))
        assert once == (-FAST_RIGHT <= shift <= -1)


@pytest.mark.deep
@pytest.mark.parametrize("activation", ["NONE", "RELU"])
@pytest.mark.usefixtures("kept_builds")
def test_every_shift_on_neon(activation: str) -> None:
    """Under QEMU: SQRDMULH and SRSHL round as TFLM does, at every shift."""
    card, rng = find("aarch64"), np.random.default_rng(1)
    need_tools(card.compiler, card.emulator)
    projects, wanted = [], []
    for i, (shift, zero) in enumerate(product(range(-31, 9), (-128, -7, 0, 127))):
        scales = scales_at(rng, shift)
        sums = sums_at(rng, scales)
        plan = make_plan(layer(scales, sums, zero, activation), card.target)
        projects.append(emit(plan.printed(mode="interpreted"), f"n{i}"))
        wanted.append(expected(scales, sums, zero, activation))
    jobs = [Job([np.zeros((1, 4), np.int8)], i) for i in range(len(projects))]
    results = run_jobs(build(with_common_instances(projects), card), jobs, count=False)
    np.testing.assert_array_equal([result.outputs[0][0] for result in results], wanted)


@given(st.data())
def test_sums_of_any_size(data: st.DataObject) -> None:
    shifts = data.draw(st.lists(st.integers(-FAST_RIGHT, -1), min_size=1, max_size=20))
    sums = data.draw(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=len(shifts), max_size=len(shifts)))
    ends = data.draw(st.integers(-128, 127)), data.draw(st.sampled_from(["NONE", "RELU"]))
    parts = data.draw(st.lists(st.floats(0.5, 0.999), min_size=len(shifts), max_size=len(shifts)))
    given_sums, scales = np.array(sums, np.int32), np.ldexp(parts, shifts).astype(np.float32)
    values, once = outputs(scales, given_sums, *ends)
    assert once
    np.testing.assert_array_equal(values, expected(scales, given_sums, *ends))


def test_a_channel_without_a_scale_does_not_matter() -> None:
    scales, sums = np.array([0.25, 0, 0.125], np.float32), np.array([100, 2**31 - 1, -77], np.int32)
    values, once = outputs(scales, sums, 3, "NONE")
    assert once
    assert values.tolist() == [28, 3, -7]
