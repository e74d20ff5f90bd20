"""Figures that people read, computed again from their sources: plans, shapes and times."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiny
from rich.table import Table

from twinfer.aot.build.targets import find
from twinfer.bench.explain.ledger import lines_of
from twinfer.bench.host import tune as tuning
from twinfer.bench.host.tune import HOPELESS
from twinfer.bench.measure import compare as comparing
from twinfer.bench.measure import cycles as estimated
from twinfer.bench.measure import report
from twinfer.bench.measure.compare import Comparison
from twinfer.bench.measure.turns import Timing
from twinfer.bench.models.source import load
from twinfer.bench.models.verify import Difference, Line, Proof
from twinfer.command_line.main import main
from twinfer.command_line.show import model as show
from twinfer.command_line.show.matrix import findings, matrix
from twinfer.command_line.show.memory import ArenaMap
from twinfer.converter.build import Builder
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.target import GENERIC

M4 = find("cortex-m4")


def cells(table: Any) -> list[list[str]]:
    """A table's rows as plain text."""
    assert isinstance(table, Table)
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


# -- inspect -----------------------------------------------------------------------------------------------------------


def painted(plan: Plan, position: int) -> int:
    """Bytes of the arena in use while an operator runs, counted one by one."""
    used = np.zeros(plan.arena_bytes, bool)
    for tensor, (first, last) in plan.lives.items():
        if first <= position <= last:
            used[plan.offsets[tensor] : plan.offsets[tensor] + tensor.nbytes] = True
    return int(used.sum())


@pytest.mark.parametrize("name", ["digits_int8", "kws_int8", "digits_float32"])
def test_inspect(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", name, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    graph = load(name).graph
    plan, generic = make_plan(graph), make_plan(graph, GENERIC)
    live = [painted(plan, i) for i in range(len(plan.graph.nodes))]
    peak = live.index(max(live))
    assert told["plan"]["peak"] == {"index": plan.graph.nodes[peak].index, "bytes": live[peak]}
    assert [ArenaMap(plan).live_bytes(i) for i in range(len(live))] == live
    ends = [at + t.nbytes for t, at in plan.offsets.items()]
    assert max(live) <= told["plan"]["lower_bound_bytes"] <= told["plan"]["arena_bytes"] == -(-max(ends) // 16) * 16
    assert told["plan"]["macs"] == sum(op["macs"] for op in told["operators"])
    assert told["constant_bytes"] == sum(t.data.nbytes for t in graph.tensors if t.data is not None)
    for row, each in zip(told["targets"], (plan, generic), strict=True):
        figures = (each.arena_bytes, each.state_bytes, each.lower_bound_bytes, each.scratch_bytes, each.constant_bytes)
        assert tuple(row.values()) == (each.target.name, *figures)
    assert [t["bytes"] for t in told["plan"]["tensors"]] == [
        t.nbytes for t in plan.offsets if t not in {step.scratch for step in plan.steps}
    ]
    assert main(["inspect", name]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"{plan.macs:,} MACs, arena {plan.arena_bytes:,} bytes" in text
    assert f"peak: {live[peak]:,} bytes live at operator {plan.graph.nodes[peak].index}" in text
    assert f"scratch at most {max(step.call.scratch for step in plan.steps):,}" in text


def test_shapes_and_quantisation_in_words() -> None:
    b = Builder("q")
    one = b.input("one", "INT8", (2, 3), scale=0.12345678, zero=-5)
    many = b.constant(np.ones((3, 2), np.int8), scale=[1, 2, 3], zero=[0, 0, 0])
    plain = b.input("plain", "FLOAT32", ())
    assert [show.quantisation(t) for t in (one, many, plain)] == ["0.123457, -5", "3 scales, axis 0", "-"]
    assert [show.dims(shape) for shape in ((), (1, -1, 3), (7,))] == ["()", "1×?×3", "7"]


# -- bench on the host -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "text", "style"),
    [
        ({"same_bits": True, "engine": "compiled"}, "same bits", "green"),
        ({"same_bits": False, "engine": "compiled", "max_difference": None}, "differ", "bold red"),
        ({"same_bits": False, "engine": "compiled", "max_difference": 1}, "differ by 1", "bold red"),
        ({"same_bits": False, "engine": "compiled", "max_difference": 0.5, "agrees": True}, "differ by 0.5", "yellow"),
        ({"same_bits": False, "engine": "tflm", "max_difference": 12.0}, "differ by 12", "yellow"),
    ],
)
def test_how_outputs_differ(row: Any, text: str, style: str) -> None:
    assert (str(report.bits(row)), report.bits(row).style) == (text, style)


def test_digits() -> None:
    """Four significant digits, also where the number gets one digit more."""
    wanted = {999.9: "999.9", 1000: "1,000", 100: "100.0", 99.99: "99.99", 10: "10.00", 9.999: "9.999", 0: "0.000"}
    assert {value: report.number(value) for value in wanted} == wanted


def small() -> Graph:
    b = Builder("small")
    return b.graph([b.op("EXP", [b.op("ABS", [b.input("x", "FLOAT32", (1, 4))])])])


def test_a_row_of_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times in µs, the spread, the ratio to the interpreter, the greatest difference: from times that are given."""
    sizes = {"macs": 77, "arena_bytes": 64, "lower_bound_bytes": 48, "constant_bytes": 12}
    plan: Any = SimpleNamespace(graph=small(), steps=range(5), options=Options(), **sizes)
    monkeypatch.setattr(comparing, "peak", lambda: SimpleNamespace(floor_us=lambda plan: 0.125))
    rng = np.random.default_rng(0)
    times = {name: Timing(tuple(rng.uniform(1e3, 9e3, 11)), 4) for name in ("interpreted", "compiled", "tflm")}
    want = [np.float32([1, 2, 3])]
    for name in ("interpreted", "compiled", "tflm", "failed"):
        other = comparing.Contender(name, None, [np.float32([1, 2.5, 3])], {"more": 1})
        row = comparing._row("m", other, times, want, plan)
        ours = name in ("interpreted", "compiled")
        assert (row["arena_bytes"], row["constant_bytes"]) == ((64, 12) if ours else (None, None))
        assert (row["floor_us"], row["more"]) == (0.125, 1)
        assert (row["model"], row["engine"], row["target"]) == ("m", name, "host")
        assert (row["operators"], row["macs"], row["lower_bound_bytes"]) == (2, 77, 48 if ours else None)
        if name == "failed":
            assert [row[key] for key in ("min_us", "median_us", "spread_us", "ratio", "rounds", "same_bits")] == [
                None
            ] * 6
            continue
        ns = np.array(times[name].ns)
        assert row["min_us"] == ns.min() / 1e3
        assert row["median_us"] == pytest.approx(np.median(ns) / 1e3)
        assert row["spread_us"] == pytest.approx((np.quantile(ns, 0.9) - np.quantile(ns, 0.1)) / 1e3)
        assert row["ratio"] == pytest.approx(np.min(times["interpreted"].ns) / ns.min())
        assert (row["rounds"], row["batch"], row["same_bits"], row["max_difference"]) == (11, 4, False, 0.5)


def test_dispatch_and_layers_of_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(small())
    steps = len(plan.steps)
    given = {"c": Timing((5000.0, 4000.0)), "python": Timing((9000.0, 4600.0))}
    monkeypatch.setattr(comparing, "interleave", lambda runs, **_: given)
    session = SimpleNamespace(run=None, run_observed=None, plan=plan)
    assert comparing._dispatch_us(session, Comparison()) == pytest.approx(0.6 / steps)
    given["python"] = Timing((3000.0,))
    assert comparing._dispatch_us(session, Comparison()) == 0
    profiles = [[[900] * steps, [700] * steps], [[500] * steps, [800] * steps]]
    sessions = [SimpleNamespace(plan=plan, profile=lambda n, p=p: p.pop(0) if len(p) > 1 else p[0]) for p in profiles]
    first, second = comparing._layers(sessions, 1e-3)
    assert [layer["min_us"] for layer in first] == [0.7] * steps
    assert [layer["min_us"] for layer in second] == [0.5] * steps


def test_figures_of_an_estimate() -> None:
    own = SimpleNamespace(cycles=480_000, instructions=384_000, cycles_per_instruction=1.25, branch_cycles=3,
                          flash_cycles=4, unmodelled_share=0.0625, source="llvm-mca")  # fmt: skip
    both = estimated.figures(own, SimpleNamespace(clock_mhz=120, energy_pj_per_cycle=50))
    assert (both["cycles"], both["ms"], both["microjoules"]) == (480_000, 4.0, 24.0)
    none = estimated.figures(own, SimpleNamespace(clock_mhz=None, energy_pj_per_cycle=None))
    assert (none["ms"], none["microjoules"]) == (None, None)
    assert [none[key] for key in ("cycles_per_instruction", "branch_cycles", "flash_cycles", "unmodelled_share")] == [
        1.25,
        3,
        4,
        0.0625,
    ]


def test_trials_keep_the_shortest_times_and_give_up_hopeless_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = tuning._Trials(load("digits_int8").graph)
    counts = [0] * len(trials._sessions)
    assert len(counts) > 1
    rounds = [iter([900, 700, 800, 700]), *(iter([700 * k * HOPELESS + 1000] * 4) for k in range(1, len(counts)))]
    for i, session in enumerate(trials._sessions):

        def profile(runs: int, i: int = i, steps: int = len(session.plan.steps)) -> list[int]:
            assert runs == 1
            counts[i] += 1
            return [int(next(rounds[i]))] * steps

        monkeypatch.setattr(session, "profile", profile)
    for _ in range(4):
        trials.time()
    several = [layer for layer in trials.tuned() if len(layer.times) > 1]
    assert counts[0] == 4
    assert several
    for layer in several:
        assert layer.times[layer.usual] == 700
        assert all(ns > 700 for way, ns in layer.times.items() if way != layer.usual)
        assert layer.best == layer.usual
    known, usual = trials.times[name := next(iter(trials._ways))], trials._ways[name][0]
    for ns, hopes in ((1, True), (700 * HOPELESS, True), (700 * HOPELESS + 1, False)):
        known[way := trials._ways[name][-1]] = int(ns)
        assert trials._hopes(name, way) == hopes
        assert trials._hopes(name, usual)


# -- explain -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["layers", "rows"])
def test_lines_of_a_plan(way: Any) -> None:
    """A line for each layer, one for all that run row by row together, and the rest; by the numbers of the file."""
    graph = load("vww_int8").graph
    graph = replace(graph, nodes=tuple(replace(node, index=node.index + 7) for node in graph.nodes))
    plan = make_plan(graph, M4.target, Options(memory=way))
    rng, count = np.random.default_rng(1), len(plan.steps)
    layers, whole = rng.integers(10, 900, (3, count)).tolist(), [90_000, 80_000, 70_000]
    *lines, rest = lines_of(plan, ("a", "b"), layers, whole)
    assert sorted(i for line in lines for i in line.steps) == list(range(count))
    assert any(len(line.steps) > 1 for line in lines) == (way == "rows")
    for line in lines:
        taken = [sum(program[i] for i in line.steps) for program in layers]
        assert (line.interpreted, line.compiled) == (taken[0], taken[2])
        assert line.causes == {"a": taken[0] - taken[1], "b": taken[1] - taken[2]}
        nodes = [plan.steps[i].node for i in line.steps]
        assert (line.position, line.operators) == (min(line.steps), tuple(node.index for node in nodes))
        if len(nodes) == 1:
            by_rows = ", row by row" if line.name.endswith(", row by row") else ""
            assert (line.op, line.name) == (nodes[0].op, f"{nodes[0].output.name}{by_rows}")
        else:
            ends = min(line.operators), max(line.operators)
            assert line.name == f"operators {ends[0]} to {ends[1]}, row by row"
    around = [total - sum(program) for total, program in zip(whole, layers, strict=True)]
    assert (rest.position, rest.steps, rest.operators) == (None, (), ())
    assert (rest.interpreted, rest.compiled) == (around[0], around[2])
    assert rest.causes == {"a": around[0] - around[1], "b": around[1] - around[2]}


# -- verify ------------------------------------------------------------------------------------------------------------


def test_the_matrix_of_several_models_shows_the_worst() -> None:
    far, near = (Difference(2, (0, 3), 1.0, 2.0, 1.5, within) for within in (False, True))
    graph = tiny.classifier()
    first = graph.nodes[0]

    def proof(*differences: Difference | None) -> Proof:
        pairs = zip(graph.nodes, differences, strict=True)
        lines = [Line(node.outputs[0], node, {"compiled": each, "tflm": None}) for node, each in pairs]
        return Proof("m", graph, lines, 3, {"litert-ref": "refuses"}, ("numpy", "compiled", "tflm", "litert-ref"))

    engines = ["numpy", "compiled", "tflm", "litert-ref"]
    alike, close, wrong = proof(None, None), proof(None, near), proof(far, near)
    table, legend = matrix([alike, close, wrong], engines)
    assert [row[1:] for row in cells(table)] == [["2", "·", sign, "=", "·"] for sign in "=≈≠"]
    table, legend = matrix([wrong], engines)
    assert [row[5:] for row in cells(table)] == [["·", "≠", "=", "·"], ["·", "≈", "=", "·"]]
    assert "1e-05 of the largest value" in str(legend)
    lines = [str(text) for text in findings([close, wrong])]
    assert lines[0] == lines[2] == "m: no LiteRT (reference): refuses"
    assert lines[1] == "m: proven on 3 samples"
    assert f"compiled differs first in {first.outputs[0]} made by {first}, element [0, 3] of sample 2" in lines[3]
    assert lines[3].endswith("interpreted 1, compiled 2; largest difference 1.5")
    assert len(lines) == 4
    del close.lines[0].differences["compiled"]
    close.lines[1].differences["compiled"] = None
    assert cells(next(matrix([close, wrong], engines)))[0][3] == "=", "what one tensor lacks, another may have"


@pytest.mark.parametrize(("within", "told"), [(True, 0), (False, 1)])
def test_what_does_not_count_is_told_where_it_is_far(within: bool, told: int) -> None:
    """LiteRT's reference kernels do not count if TFLM agrees."""
    graph = tiny.classifier()
    differences = {"tflm": None, "litert-ref": Difference(0, (0, 1), 1.0, 2.0, 1.0, within)}
    alone = Proof("m", graph, [Line(graph.outputs[0], graph.nodes[1], differences)], 1)
    lines = [str(text) for text in findings([alone])]
    assert lines[0] == "m: proven on one sample"
    beside = "m: not counted, since tflite-micro decides: LiteRT"
    assert [line.startswith(beside) for line in lines[1:]] == [True] * told
