"""The files that a program for a board reads and writes, made and read here by hand."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from flows import Sub

from twinfer.aot.build import runner
from twinfer.aot.build.jobs import LOOP, job_file, results
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import find
from twinfer.aot.print.guard import STATUS
from twinfer.runtime.errors import GuardError, InvalidArgumentError, ToolError
from twinfer.runtime.graph import Graph
from twinfer.runtime.plan.make import make_plan


def two_ends() -> Graph:
    """Two inputs of two types; their outputs, and a constant between them."""
    net = Sub("ends")
    x, y = net.input((1, 3)), net.input((2,), "INT32")
    a, b = net.op("ABS", [x]), net.op("ADD", [y, y], fused_activation_function="NONE")
    return net.graph([a, net.constant(np.int8([7, 8]), "INT8"), b])


def one_end() -> Graph:
    net = Sub("one")
    return net.graph([net.op("NEG", [net.input((4,))])])


@pytest.fixture
def program() -> Any:
    """A program of two models; the first has two layers."""
    plans = [make_plan(graph()) for graph in (two_ends, one_end)]
    projects = [SimpleNamespace(name=f"m{i}", plan=plan, layers=tuple("ab"[: 2 - i])) for i, plan in enumerate(plans)]
    return SimpleNamespace(projects=projects, card=find("cortex-m4"))


X, Y, Z = np.float32([[1, -2, 3]]), np.int32([4, -5]), np.float32([1, 2, 3, 4])


@pytest.mark.parametrize("clock", [False, True])
def test_what_a_program_reads(clock: bool, program: Any) -> None:
    """A word about the clock; per job its model, how it runs, and all its inputs."""
    jobs = [Job([X, Y]), Job([Z], model=1, by_step=True), Job([X, Y], fresh=False), Job([Z], 1, paint=True)]
    want = struct.pack("<I", clock)
    for model, how, values in ((0, 1, (X, Y)), (1, 1 | 2, (Z,)), (0, 0, (X, Y)), (1, 1 | 4, (Z,))):
        want += struct.pack("<II", model, how) + b"".join(value.tobytes() for value in values)
    assert job_file(program, jobs, clock=clock) == want
    for wrong in ([X], [X, Y, Y], [Y, X], [X[0], Y], [X.astype(np.float64), Y]):
        with pytest.raises(InvalidArgumentError):
            job_file(program, [Job([X, Y]), Job(wrong)])


@pytest.mark.parametrize("scale", [1, 2])
def test_what_a_program_writes(scale: int, program: Any) -> None:
    """Per job a status, the stack and the outputs that are no constants; of every counted run two marks."""
    jobs = [Job([X, Y]), Job([Z], 1, paint=True), Job([Z], 1), Job([X, Y], by_step=True)]
    first, second = np.abs(X).tobytes() + (2 * Y).tobytes(), (-Z).tobytes()
    content = b"".join(struct.pack("<iI", 0, stack) + values
                       for stack, values in ((0, first), (456, second), (0, second), (0, first)))  # fmt: skip
    intervals = [5, 7, 5 + LOOP - 1, 5 + 99, 5 + 199, 7 + 11, 7 + 22]
    marks = [at for i, taken in enumerate(intervals) for at in (1000 * i, 1000 * i + scale * taken)]
    got = results(program, jobs, content, marks)
    assert [each.counts for each in got] == [(100,), (), (200,), (12, 23)]
    assert [each.stack_bytes for each in got] == [0, 456, 0, 0]
    for each, want in zip(got, ([np.abs(X), np.int8([7, 8]), 2 * Y], [-Z], [-Z], [np.abs(X), np.int8([7, 8]), 2 * Y]),
                          strict=True):  # fmt: skip
        assert len(each.outputs) == len(want)
        for value, wanted in zip(each.outputs, want, strict=True):
            np.testing.assert_array_equal(value, wanted)
            assert value.dtype == wanted.dtype
    assert [each.counts for each in results(program, jobs, content)] == [()] * 4


@pytest.mark.parametrize("which", [0, 1])
def test_a_run_that_failed(which: int, program: Any) -> None:
    """The model of the job that failed is named; a guard's status names its layer."""
    jobs = [Job([X, Y]), Job([Z], 1)]
    good = [struct.pack("<iI", 0, 0) + np.abs(X).tobytes() + (2 * Y).tobytes(), struct.pack("<iI", 0, 0) + Z.tobytes()]
    for status, error, message in ((3, ToolError, f"^m{which}_run on cortex-m4 returned 3$"),
                                   (STATUS, GuardError, ("ABS", "NEG")[which])):  # fmt: skip
        content = [*good[:which], struct.pack("<iI", status, 0) + good[which][8:], *good[which + 1 :]]
        with pytest.raises(error, match=message):
            results(program, jobs, b"".join(content))


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("models", [(0, 0), (0, 1), (1, 0, 0)])
def test_a_job_goes_on_behind_its_own_model(
    models: tuple[int, ...], fresh: bool, program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [Job([], model, fresh=fresh or not i) for i, model in enumerate(models)]
    monkeypatch.setattr(runner, "runner_of", lambda card: SimpleNamespace(run=lambda *_, **how: [how]))
    good = fresh or models == (0, 0)
    if good:
        assert run_jobs(program, jobs, count=False, patience=7.0) == [{"count": False, "patience": 7.0}]
        return
    with pytest.raises(InvalidArgumentError, match=rf"job 1 goes on with the state of model {models[1]}, but job 0"):
        run_jobs(program, jobs)
