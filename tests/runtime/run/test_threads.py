"""Layers that are split over threads give the bits of one thread, whatever their number; any number may call."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cases import distinct_plans, outputs_of
from hypothesis import given, settings
from hypothesis import strategies as st
from sum_nets import ENDS, network

import twinfer
from twinfer.bench.models.source import load
from twinfer.converter.build import Builder
from twinfer.kernels_c import ffi, lib
from twinfer.runtime.errors import InvalidArgumentError, NotReadyError
from twinfer.runtime.graph import Array, Graph, Signature
from twinfer.runtime.options import Options
from twinfer.runtime.plan import split
from twinfer.runtime.plan.by_rows.layers import layer_of
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.program import Layer
from twinfer.runtime.run import isa
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.session import Session
from twinfer.runtime.run.stream import METADATA
from twinfer.runtime.target import TARGETS


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


@pytest.mark.parametrize("kind", ENDS)
def test_layers_that_add_up_rows_give_the_same_bits(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All outputs of such a layer need all rows, whichever computer the plan is for."""
    monkeypatch.setattr(split, "LEAST", 1)
    for seed in range(3):
        graph = network(seed, kind)
        for _, plan in distinct_plans(graph, TARGETS, Options(memory="layers")):
            want, *others = (outputs_of(Session(plan, threads=n), random_inputs(graph)) for n in (1, 2, 5))
            for other in others:
                np.testing.assert_array_equal(want[0], other[0])


def test_an_output_over_its_input_is_not_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "LEAST", 1)
    b = Builder("relu")
    x = b.op("ADD", [b.input("x", "FLOAT32", (1, 8, 8, 4)), b.input("z", "FLOAT32", (1, 8, 8, 4))])
    plan = make_plan(b.graph([b.op("RELU", [x])]), isa.this_computer())
    assert plan.offsets[x] == plan.offsets[plan.graph.outputs[0]]
    assert not any(split.apart(plan, layer) for layer in map(layer_of, plan.steps) if isinstance(layer, Layer))


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


@pytest.mark.parametrize("threads", [64, 65, 100_000, 2**31, 10**30])
def test_many_threads_are_sixty_four(threads: int) -> None:
    session = Session(make_plan(load("digits_int8").graph, isa.this_computer()), threads=threads)
    assert session._pool is not None
    assert len(session._pool._scratch) == lib.TW_MAX_THREADS == 64
    session.run()


def test_numbers_of_threads_are_litert_s() -> None:
    """What LiteRT refuses is refused, with its type of error."""
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    content = load("digits_int8").content
    for threads in (None, True, 1, 65, 0, -1, -2, False, 1.0, "2", np.int32(2)):
        errors = []
        for kind in (twinfer.Interpreter, litert.Interpreter):
            try:
                kind(model_content=content, num_threads=threads)
                errors.append(False)
            except ValueError:
                errors.append(True)
        assert errors[0] == errors[1], threads


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


# -- any number of threads that call -----------------------------------------------------------------------------------


def all_at_once(*functions: Callable[[], object]) -> None:
    """Run each in a thread of its own, often switched; fails if one raises or does not end."""
    raised: list[BaseException] = []
    start = threading.Barrier(len(functions))

    def run(function: Callable[[], object]) -> None:
        try:
            start.wait(60)
            function()
        except BaseException as error:
            raised.append(error)

    callers = [threading.Thread(target=run, args=(function,), daemon=True) for function in functions]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(120)
    finally:
        sys.setswitchinterval(interval)
    assert not any(caller.is_alive() for caller in callers)
    if raised:
        raise raised[0]


def scaled(name: str = "scaled") -> Graph:
    """y = x * 3, by two signatures."""
    b = Builder(name)
    x = b.input("x", "FLOAT32", (1, 16, 16, 8))
    weights = np.zeros((8, 3, 3, 8), np.float32)
    weights[range(8), 1, 1, range(8)] = 3
    y = b.op("CONV_2D", [x, weights, np.zeros(8, np.float32)], padding="SAME", stride_h=1, stride_w=1)
    graph = b.graph([y])
    both = tuple(Signature(key, {"x": graph.inputs[0]}, {"y": graph.outputs[0]}) for key in ("one", "two"))
    return replace(graph, signatures=both)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_signature_runner_s_call_is_one_turn(threads: int, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call gets the outputs of its own inputs, of whatever shape, beside invoke and all other methods."""
    monkeypatch.setattr(split, "LEAST", 1)
    content = bytes(twinfer.write(scaled()))
    interpreter = twinfer.compile(content) if compiled else Interpreter(model_content=content, num_threads=threads)
    interpreter.allocate_tensors()
    index = interpreter.get_input_details()[0]["index"]

    def calls(key: str, value: float) -> None:
        runner = interpreter.get_signature_runner(key)
        for i in range(40):
            x = np.full((1, 16, 16, 8), value + i, np.float32)
            np.testing.assert_array_equal(runner(x=x)["y"], x * 3)

    def other() -> None:
        for i in range(40):
            interpreter.set_tensor(index, np.full((1, 16, 16, 8), i, np.float32))
            interpreter.invoke()
            got = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
            assert got.min() == got.max()  # of one run, whoever asked for it
            interpreter.tensor(index)().sum()
            interpreter.get_tensor_details()
            interpreter.reset_all_variables()

    all_at_once(lambda: calls("one", 100), lambda: calls("two", 200), lambda: calls("one", 300), other)


def test_streams_share_the_rows_that_wait() -> None:
    """No row is lost or taken twice: each step has the rows that came next."""
    b = Builder("minus")
    x = b.input("x", "FLOAT32", (1, 4, 1))
    graph = b.graph([b.op("NEG", [x])])
    metadata = {METADATA: b'{"axis": 1, "rows": 4}'}
    interpreter = Interpreter.from_graph(replace(graph, metadata=metadata))
    interpreter.allocate_tensors()
    seen: list[float] = []

    def streams(first: int) -> None:
        chunks = (np.full((3, 1), first + i, np.float32) for i in range(40))
        for (y,) in interpreter.stream(chunks):
            seen.extend((-y.ravel()).tolist())

    all_at_once(lambda: streams(0), lambda: streams(1000))
    assert sorted(seen) == sorted([float(i) for i in (*range(40), *range(1000, 1040)) for _ in range(3)])


def test_a_hook_may_call_its_own_interpreter() -> None:
    got: list[Array] = []

    def hook(position: int, step: Any) -> None:
        interpreter.get_tensor_details()
        got.append(interpreter.get_tensor(0))
        if len(got) == 1:
            interpreter.invoke()

    interpreter = Interpreter(model_content=bytes(twinfer.write(scaled())), on_call=hook)
    interpreter.allocate_tensors()
    all_at_once(interpreter.invoke)
    assert len(got) == 2


def test_interpreters_run_side_by_side() -> None:
    """One is in the middle of a run until another has done one; and Python goes on while C computes."""
    content = bytes(twinfer.write(scaled()))
    begun, done = threading.Event(), threading.Event()

    def hook(*_: object) -> None:
        begun.set()
        assert done.wait(60)

    first, second = Interpreter(model_content=content, on_call=hook), Interpreter(model_content=content)

    def after() -> None:
        begun.wait(60)
        second.invoke()
        done.set()

    for each in (first, second):
        each.allocate_tensors()
    all_at_once(first.invoke, after)


def rows_of(interpreter: Interpreter) -> Any:
    return interpreter.push_row(np.zeros((16, 8), np.float32))


#: Every method that looks at tensors or runs.
CALLS: dict[str, Callable[[Interpreter], Any]] = {
    "allocate_tensors": lambda it: it.allocate_tensors(),
    "invoke": lambda it: it.invoke(),
    "begin": lambda it: it.begin(),
    "push_row": rows_of,
    "finish": lambda it: it.finish(),
    "stream": lambda it: list(it.stream([np.zeros((16, 16 * 8), np.float32)])),
    "reset_all_variables": lambda it: it.reset_all_variables(),
    "resize_tensor_input": lambda it: it.resize_tensor_input(0, [1, 16, 16, 8]),
    "set_tensor": lambda it: it.set_tensor(0, np.zeros((1, 16, 16, 8), np.float32)),
    "get_tensor": lambda it: it.get_tensor(0),
    "tensor": lambda it: it.tensor(0)(),
    "get_input_details": lambda it: it.get_input_details(),
    "get_output_details": lambda it: it.get_output_details(),
    "get_tensor_details": lambda it: it.get_tensor_details(),
    "runner": lambda it: it.get_signature_runner("one")(x=np.zeros((1, 16, 16, 8), np.float32)),
    "runner's details": lambda it: it.get_signature_runner("two").get_input_details(),
    "runner's other details": lambda it: it.get_signature_runner("two").get_output_details(),
}


@pytest.mark.parametrize("kind", ["interpreted", "by rows", "compiled"])
def test_every_call_waits_for_its_turn(kind: str) -> None:
    """While another thread has the turn no method ends, and afterwards every one does."""
    graph = replace(scaled(), metadata={METADATA: b'{"axis": 1, "rows": 16}'})
    interpreter = (twinfer.compile if kind == "compiled" else Interpreter.from_graph)(graph)
    if kind == "by rows":
        interpreter = Interpreter.from_graph(graph, Options(input_rows=True))
    interpreter.allocate_tensors()
    if kind == "by rows":
        interpreter.begin()
        for _ in range(16):
            rows_of(interpreter)
    ended: list[str] = []

    def calls(name: str) -> None:
        with suppress(InvalidArgumentError, NotReadyError):  # of rows, where the input is whole
            CALLS[name](interpreter)
        ended.append(name)

    with interpreter._lock:
        callers = [threading.Thread(target=calls, args=(name,), daemon=True) for name in CALLS]
        for caller in callers:
            caller.start()
        time.sleep(0.2)
        assert ended == []
    for caller in callers:
        caller.join(60)
    assert sorted(ended) == sorted(CALLS)


def test_shapes_change_while_others_run() -> None:
    """Whoever calls gets right values or an error in words."""
    interpreter = Interpreter(model_content=bytes(twinfer.write(scaled())), num_threads=2)
    interpreter.allocate_tensors()
    index, out = (about()[0]["index"] for about in (interpreter.get_input_details, interpreter.get_output_details))

    def resizes() -> None:
        for side in [5, 9, 16] * 10:
            interpreter.resize_tensor_input(index, [1, side, side, 8])
            interpreter.allocate_tensors()

    def runs() -> None:
        for _ in range(200):
            with suppress(NotReadyError):
                interpreter.invoke()
                assert interpreter.get_tensor(out).shape in [(1, side, side, 8) for side in (5, 9, 16)]
            with suppress(NotReadyError, InvalidArgumentError):
                interpreter.set_tensor(index, np.ones((1, 9, 9, 8), np.float32))

    all_at_once(resizes, runs, runs)


def test_threads_that_make_interpreters() -> None:
    """Reading and planning have no state that threads could spoil."""
    contents = [load(name).content for name in ("kws_int8", "digits_int8", "digits_float32")]
    want = [outputs(twinfer.read(content), 1) for content in contents]

    def makes(order: int) -> None:
        for content, right in list(zip(contents, want, strict=True))[::order]:
            assert all(map(np.array_equal, outputs(twinfer.read(content), 1), right))

    all_at_once(lambda: makes(1), lambda: makes(-1), lambda: makes(1))
