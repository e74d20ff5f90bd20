"""What compiling is worth: ledgers sum, to the instruction."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import tiny
from flows import Sub
from needs import deep_but
from rich.console import Console

from twinfer.aot.build.host import compile_plans
from twinfer.aot.build.targets import find
from twinfer.bench.explain import on_host, on_target
from twinfer.bench.explain.causes import AROUND, CAUSES
from twinfer.bench.explain.ledger import Ledger, Line, ledger_tables
from twinfer.bench.explain.on_host import CACHE, Timed, ledger_on_host
from twinfer.bench.explain.on_target import ledger_on
from twinfer.bench.measure.compare import same_bits
from twinfer.bench.measure.embedded import Measurement, every, fresh_outputs, host_outputs, measure_on
from twinfer.bench.models.source import Source, load
from twinfer.runtime.graph import Graph
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run import isa
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session

pytestmark = pytest.mark.usefixtures("board_tools")

M4 = find("cortex-m4")


@cache
def kws_on(core: str) -> Ledger:
    return ledger_on(load("kws_int8"), find(core))


@pytest.fixture(params=deep_but(["cortex-m0", "cortex-m4", "cortex-m55"], "cortex-m4"))
def ledger(request: pytest.FixtureRequest) -> Ledger:
    return kws_on(request.param)


@pytest.fixture(scope="module")
def timed() -> Ledger:
    return ledger_on_host(Source("tiny", tiny.classifier()), seconds=0.2)


def branches() -> Graph:
    """y = x + 1 if x < 2, else x * x."""
    main, then, other = Sub("main"), Sub("then"), Sub("else")
    x, a, b = main.input(), then.input(), other.input()
    (y,) = main.branch(main.less(x, np.float32([2])), 1, 2, [x], [x])
    one = np.float32([1])
    return main.graph([y], then.graph([then.add(a, one)]), other.graph([other.mul(b, b)]))


def saved(line: Line) -> float:
    return line.interpreted - line.compiled


def text(parts: Any) -> str:
    console = Console(file=io.StringIO(), width=150)
    for part in parts:
        console.print(part)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_instructions_sum_with_nothing_left(ledger: Ledger) -> None:
    for line in (*ledger.lines, ledger.total, *ledger.bytes.values()):
        assert sum(line.causes.values()) == saved(line)
        assert all(type(value) is int for value in (line.interpreted, line.compiled, *line.causes.values()))
    assert ledger.total.interpreted == sum(line.interpreted for line in ledger.lines)
    assert ledger.same_bits


def test_both_ends_are_what_the_bench_counts(ledger: Ledger) -> None:
    """The ledger explains the two programs that ``twinfer bench`` measures, byte for byte."""
    both = measure_on(load("kws_int8"), find(ledger.target), Measurement(every()))
    interpreted, compiled = (next(row for row in both if row["engine"] == e) for e in ("interpreted", "compiled"))
    assert (ledger.total.interpreted, ledger.total.compiled) == (interpreted["instructions"], compiled["instructions"])
    flash = [row["code_bytes"] + row["weight_bytes"] for row in (interpreted, compiled)]
    assert [ledger.bytes["flash"].interpreted, ledger.bytes["flash"].compiled] == flash
    ram = [row["ram_bytes"] for row in (interpreted, compiled)]
    assert [ledger.bytes["RAM"].interpreted, ledger.bytes["RAM"].compiled] == ram


def test_a_program_that_branches_is_one_line() -> None:
    source = Source("branches", branches())
    ledger = ledger_on(source, M4)
    (line,) = ledger.lines
    assert line.op == AROUND
    assert saved(line) == sum(line.causes.values())
    assert ledger.same_bits
    assert ledger_on_host(source, seconds=0.05).same_bits


def test_floats_need_agree_within_the_tolerance_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """exp of newlib and of glibc differ in the last bit, which says nothing of compiled and interpreted."""
    sub = Sub("model")
    source = Source("sigmoid", sub.graph([sub.op("LOGISTIC", [sub.input((64,))])]))
    assert ledger_on(source, M4).same_bits
    moved = lambda graph, inputs: [value + np.float32(0.01) for value in host_outputs(graph, inputs)]  # noqa: E731
    monkeypatch.setattr(on_target, "host_outputs", moved)
    assert not ledger_on(source, M4).same_bits


def shaped(whole: Sequence[float], layers: Sequence[float], alone: Sequence[float]) -> Timed:
    """Times that are the same in every one of 9 rounds, of a model with one step."""
    rounds = np.ones(9)
    return Timed(np.outer(whole, rounds), np.outer(layers, rounds)[:, :, None], np.outer(alone, rounds)[:, :, None])


def test_times_become_causes() -> None:
    """The loop in Python 20, in C 16, its kernels alone 15.5, in a library 15, for this processor 13,
    without a table 12, compiled 7 µs.
    """
    timed = shaped([20, 16, 15.5, 15, 13, 12, 7], [18, 14, 14, 14, 12, 11, 6], [10, 5.5])
    assert sum(on_host._cache(timed)) == 0.5  # the layers before cost the shared body 1 µs, the own one half
    intervals = on_host._intervals(timed)
    assert {cause: low for cause, (low, high) in intervals.items() if low == high} == {
        "dispatch_python": 4, "unit": 0.5, "not_explained": 0.5, "compiler_options": 2, "dispatch_c": 1,
        "parameters": 4.5, CACHE: 0.5,
    }  # fmt: skip


def test_intervals_hold_95_per_cent_of_rounds_drawn_anew() -> None:
    """A bootstrap of our own, with ten times as many draws: the ends of 90 or 99 % lie further off than these."""
    rng = np.random.default_rng(3)
    whole = np.outer([20, 16, 15.5, 15, 13, 12, 7], np.ones(60)) + rng.normal(0, 1, (7, 60))
    layers = np.outer([18, 14, 14, 14, 12, 11, 6], np.ones(40))[:, :, None] + rng.normal(0, 1, (7, 40, 3))
    alone = np.outer([10, 5.5], np.ones(40))[:, :, None] + rng.normal(0, 1, (2, 40, 3))
    intervals = on_host._intervals(Timed(whole, layers, alone))
    drawn = []
    for _ in range(4000):
        columns, rounds = rng.integers(60, size=60), rng.integers(40, size=40)
        saved = -np.diff(np.median(whole[:, columns], axis=1))
        gained = np.median(layers[-2:, rounds], axis=1) - np.median(alone[:, rounds], axis=1)
        cache = (gained[0] - gained[1]).sum()
        drawn.append([*saved[:-1], saved[-1] - cache, cache])
    for (cause, ends), values in zip(intervals.items(), np.transpose(drawn), strict=True):
        low, high = np.percentile(values, (2.5, 97.5))
        ninety, most = np.percentile(values, (5, 95)), np.percentile(values, (0.5, 99.5))
        wide = ends[1] - ends[0]
        assert (high - low + ninety[1] - ninety[0]) / 2 < wide < (high - low + most[1] - most[0]) / 2, cause
        assert abs(sum(ends) - low - high) / 2 < 0.15 * wide


def test_the_interpreter_borrows_the_kernels_of_a_library() -> None:
    plan = make_plan(load("ad01_int8").graph, isa.this_computer())
    library = compile_plans({"m": plan.printed(mode="interpreted")}, exported=True)["m"].library
    borrowing, usual = on_host.Borrowing(plan, library, "m"), Session(plan)
    kernels = {call.kernel for step in plan.steps for call in step.calls}
    assert all(borrowing._function(kernel) != usual._function(kernel) for kernel in kernels)
    other = "tw_transpose_conv_s16"  # of no layer of the model
    assert borrowing._function(other) == usual._function(other)
    inputs = random_inputs(plan.graph, 1)
    theirs, own = (fresh_outputs(session, inputs) for session in (borrowing, usual))
    assert same_bits(theirs, own)


def test_a_fault_deep_in_the_stack_is_raised() -> None:
    def fail() -> None:
        raise KeyError("deep")

    with pytest.raises(KeyError, match="deep"):
        on_host._deeper(3, fail)
    done = []
    on_host._deeper(3, lambda: done.append(1))
    assert done == [1]


def test_times_sum_and_lie_in_their_intervals(timed: Ledger) -> None:
    for line in (*timed.lines, timed.total):
        assert sum(line.causes.values()) == pytest.approx(saved(line), abs=1e-6)
    assert timed.same_bits
    assert set(timed.intervals) == set(timed.causes) <= set(CAUSES)
    assert all(low <= high for low, high in timed.intervals.values())
    assert timed.total.causes["dispatch_python"] > 0
    assert list(timed.start.interpreted) == ["read", "plan", "bind", "first run"]
    said = text(ledger_tables(timed))
    assert "95 % from" in said
    assert "not ex-" in said
    assert "From the file to the first inference" in said
