"""What a run has returned stays what it was: results are nobody's but the caller's. And the times that are told."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest
from flows import Sub

from twinfer import CompiledModel, Interpreter
from twinfer.converter.build import Builder
from twinfer.converter.stream.convert import stream
from twinfer.kernels_c import lib
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run import session as sessions
from twinfer.runtime.run.session import Session

ENGINES = (Interpreter, CompiledModel)


def net(rows: int = 8) -> Graph:
    """[1, rows, 1, 2] -> convolution over two rows -> two outputs: its RELU, and all in a line."""
    b, rng = Builder("net"), np.random.default_rng(0)
    x = b.input("x", "FLOAT32", (1, rows, 1, 2))
    w, bias = (b.constant(rng.standard_normal(s).astype(np.float32)) for s in ((2, 2, 1, 2), (2,)))
    y = b.op("CONV_2D", [x, w, bias], padding="VALID", stride_h=1, stride_w=1, fused_activation_function="NONE")
    z = b.op("RELU", [y])
    return b.graph([z, b.op("RESHAPE", [y, np.array([1, -1], np.int32)], shape=(1, 2 * rows - 2))], signature="one")


def values(i: int, shape: Any) -> Array:
    return np.random.default_rng(i).standard_normal(shape).astype(np.float32)


def by_session(model: Any) -> Iterator[list[Array]]:
    for i in count():
        model.session.feed([values(i, model.plan.graph.inputs[0].shape)])
        model.session.run()
        yield model.session.outputs()


def by_tensors(model: Any) -> Iterator[list[Array]]:
    source = model.get_input_details()[0]
    for i in count():
        model.set_tensor(source["index"], values(i, source["shape"]))
        model.invoke()
        yield [model.get_tensor(each["index"]) for each in model.get_output_details()]


def by_signature(model: Any) -> Iterator[list[Array]]:
    runner = model.get_signature_runner("one")
    for i in count():
        yield [*runner(x=values(i, model.get_input_details()[0]["shape"])).values()]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("way", [by_session, by_tensors, by_signature])
def test_results_are_kept_by_whoever_has_them(engine: Any, way: Any) -> None:
    """They are copies: later runs change none, and to change one changes no run."""
    model = engine.from_graph(net())
    model.allocate_tensors()
    runs = way(model)
    results = [next(runs) for _ in range(4)]
    alone = engine.from_graph(net())
    alone.allocate_tensors()
    for i, (got, want) in enumerate(zip(results, way(alone), strict=False)):
        assert [a.tobytes() for a in got] == [a.tobytes() for a in want], i
    assert len({result[0].tobytes() for result in results}) == 4
    for array in results[-1]:
        array[...] = 7
    assert all((array == 7).all() for array in results[-1])
    assert all(not (array == 7).any() for array in next(runs))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_list_of_a_stream_has_every_result(engine: Any) -> None:
    """All at once or one at a time, in one chunk or in many."""
    graph = stream(net()).graph
    rows = values(0, (20, 2))
    one_by_one = []
    for chunks in ([rows], np.split(rows, 20), np.split(rows, [3, 4, 11])):
        model = engine.from_graph(graph)
        model.allocate_tensors()
        every = list(model.stream(chunks))
        window = Interpreter.from_graph(net())
        window.allocate_tensors()
        assert len(every) == 13
        for i, outputs in enumerate(every):
            window.session.feed([rows[i : i + 8].reshape(1, 8, 1, 2)])
            window.session.run()
            relu, line = window.session.outputs()
            assert outputs[0].tobytes() == relu[:, -outputs[0].shape[1] :].tobytes()
            assert outputs[1].tobytes() == line.tobytes()
        one_by_one.append([[each.copy() for each in outputs] for outputs in every])
    assert str(one_by_one[0]) == str(one_by_one[1]) == str(one_by_one[2])


def test_what_is_given_may_be_changed() -> None:
    """A value that was set, fed or pushed is copied at once."""
    model = Interpreter.from_graph(net())
    model.allocate_tensors()
    value = values(0, (1, 8, 1, 2))
    first = next(by_tensors(model))
    model.set_tensor(model.get_input_details()[0]["index"], value)
    value[...] = 9
    model.invoke()
    assert [each.tobytes() for each in model.session.outputs()] == [each.tobytes() for each in first]


class Clock:
    """Times in place of ``tw_profile``'s: of every call that it is asked for, the next of a list."""

    def __init__(self, *times: int) -> None:
        self.times, self.calls = iter(times), list[str]()

    def tw_run(self, slots: Any, count: int) -> None:
        self.calls.append("run")
        lib.tw_run(slots, count)

    def tw_profile(self, slots: Any, count: int, ns: Any) -> None:
        self.calls.append("time")
        lib.tw_profile(slots, count, ns)
        for k in range(count):
            ns[k] = next(self.times)

    def __getattr__(self, name: str) -> Any:
        return getattr(lib, name)


def test_profiles_are_the_shortest_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """For every step by itself over all runs, without the clock's own time, and never below nothing."""
    session = Session(make_plan(net()))
    assert len(session.plan.steps) == 2
    monkeypatch.setattr(sessions, "_clock_ns", lambda: 5)
    monkeypatch.setattr(sessions, "lib", Clock(105, 40, 35, 60, 95, 45))
    assert session.profile(3) == [30, 35]
    monkeypatch.setattr(sessions, "lib", Clock(3, 5))
    assert session.profile(1) == [0, 0]
    monkeypatch.setattr(sessions, "lib", clock := Clock(25, 6))
    assert session.profile_alone() == [20, 1]
    assert clock.calls == ["run", "time"] * 2


def test_a_step_that_runs_often_counts_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a loop's body the times add up within a run."""
    test, body, main = Sub("test"), Sub("body"), Sub("main")
    n, limit = test.input(), test.input()
    m, same = body.input(), body.input()
    graphs = test.graph([test.less(n, limit)]), body.graph([body.add(m, np.float32([1])), same])
    outputs = main.loop(1, 2, [main.input(), main.input()])
    session = Session(make_plan(main.graph(outputs, *graphs)))
    monkeypatch.setattr(sessions, "_clock_ns", lambda: 1)
    runs = []
    for trips in (0, 1, 4):
        monkeypatch.setattr(sessions, "lib", Clock(*[11] * 1000))
        session.feed([np.float32([0]), np.float32([trips])])
        times = dict(zip((step.node.op for step in session.plan.steps), session.profile(1), strict=True))
        runs.append((times["LESS"], times["ADD"]))
    assert runs == [(10, 0), (20, 10), (50, 40)]
