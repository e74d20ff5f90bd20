"""Layers that are split over threads give the bits of one thread, whatever their number."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import twinfer
from twinfer.bench.models.source import load
from twinfer.converter.build import Builder
from twinfer.kernels_c import ffi, lib
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run import isa, split
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session


def outputs(graph: Graph, threads: int, level: int | None = None) -> list[Array]:
    session = Session(make_plan(graph, isa.this_computer()), level, threads)
    session.feed(random_inputs(graph))
    session.run()
    session.run()
    return session.outputs()


def splits(session: Session) -> int:
    """How many calls run in parts."""
    run = ffi.addressof(lib, "tw_run_split")
    return sum(slots[0].fn == run for slots, count in session._steps if count)


def assert_same(graph: Graph, level: int | None = None) -> None:
    want = outputs(graph, 1, level)
    for threads in (2, 3, 4):
        for one, other in zip(want, outputs(graph, threads, level), strict=True):
            np.testing.assert_array_equal(one.view(np.uint8), other.view(np.uint8))


@pytest.mark.parametrize("name", ["ic_int8", "ic_float32", "vww_float32"])
def test_models_give_the_same_bits(name: str) -> None:
    graph = load(name).graph
    assert splits(Session(make_plan(graph, isa.this_computer()), threads=2)) >= 2
    assert_same(graph)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 13), st.integers(1, 9), st.integers(1, 20), st.integers(1, 20), st.integers(1, 5), st.integers(1, 3),
    st.sampled_from(["SAME", "VALID"]), st.booleans(), st.integers(0, isa.level()),
)  # fmt: skip
def test_convolutions_give_the_same_bits(
    height: int, width: int, depth: int, out: int, size: int, stride: int, padding: str, quantised: bool, level: int
) -> None:
    rng = np.random.default_rng(height * width * depth)
    b, size = Builder("conv"), min(size, height, width)
    shape, options = (out, size, size, depth), {"padding": padding, "stride_h": stride, "stride_w": stride}
    if quantised:
        x = b.input("x", "INT8", (1, height, width, depth), 0.1, 3)
        w = b.constant(rng.integers(-127, 128, shape).astype(np.int8), np.float32(0.01))
        bias = b.constant(rng.integers(-500, 500, out).astype(np.int32), np.float32(0.001))
        y = b.op("CONV_2D", [x, w, bias], scale=0.2, zero=-5, **options)
    else:
        x = b.input("x", "FLOAT32", (1, height, width, depth))
        y = b.op("CONV_2D", [x, rng.normal(size=shape).astype(np.float32), np.zeros(out, np.float32)], **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split, "LEAST", 1)
        assert_same(b.graph([y]), level)


def test_an_output_over_its_input_is_not_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "LEAST", 1)
    b = Builder("relu")
    x = b.op("ADD", [b.input("x", "FLOAT32", (1, 8, 8, 4)), b.input("z", "FLOAT32", (1, 8, 8, 4))])
    plan = make_plan(b.graph([b.op("RELU", [x])]), isa.this_computer())
    assert plan.offsets[x] == plan.offsets[plan.graph.outputs[0]]
    assert not any(map(split._layer, [plan] * 2, plan.steps))


def test_small_models_are_not_split() -> None:
    assert splits(Session(make_plan(load("digits_int8").graph, isa.this_computer()), threads=4)) == 0


def test_a_forked_process_has_no_threads_and_goes_on_alone() -> None:
    graph = load("ic_int8").graph
    session = Session(make_plan(graph, isa.this_computer()), threads=2)
    session.feed(random_inputs(graph))
    session.run()
    child = os.fork()
    if child == 0:
        want = session.outputs()
        session.run()
        same = all(map(np.array_equal, want, session.outputs()))
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_the_interpreter_has_litert_s_argument() -> None:
    content = load("ic_int8").content
    results = []
    for threads in (None, 1, 2, 4):
        interpreter = twinfer.Interpreter(model_content=content, num_threads=threads)
        interpreter.allocate_tensors()
        assert (splits(interpreter.session) > 0) == (threads in (2, 4))
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], random_inputs(load("ic_int8").graph)[0])
        interpreter.invoke()
        results.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
    assert all(np.array_equal(results[0], other) for other in results[1:])
