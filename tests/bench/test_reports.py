"""Figures that people read, computed again from their sources: plans, shapes and times."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from pages import Page
from rich.console import Console
from rich.table import Table

from twinfer.aot.print.emit import emit
from twinfer.bench.host.peak import Peak
from twinfer.bench.measure import compare as comparing
from twinfer.bench.measure import limits, report
from twinfer.bench.measure.coding_report import coding_tables
from twinfer.bench.measure.compare import Comparison, compare
from twinfer.bench.measure.embedded_html import embedded_html
from twinfer.bench.measure.embedded_report import embedded_tables
from twinfer.bench.measure.turns import Timing
from twinfer.bench.models.difference import Difference
from twinfer.bench.models.source import Source, load
from twinfer.bench.models.verify import Line, Proof
from twinfer.command_line.main import main
from twinfer.command_line.show import arrays
from twinfer.command_line.show import model as show
from twinfer.command_line.show.arena_map import ArenaMap
from twinfer.command_line.show.matrix import findings, matrix
from twinfer.converter.build import Builder
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import GENERIC, HOST


def cells(table: Any) -> list[list[str]]:
    """A table's rows as plain text."""
    assert isinstance(table, Table)
    columns = [[str(cell) for cell in column.cells] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def heads(table: Any) -> list[str]:
    return [str(column.header) for column in table.columns]


def texts(parts: Any) -> str:
    console = Console(width=200, file=io.StringIO())
    for part in parts:
        console.print(part)
    file: Any = console.file
    return str(file.getvalue())


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


@pytest.mark.parametrize(("bound", "text"), [(1000, "at the lower"), (800, "25.0 % above"), (0, "at the lower")])
def test_how_far_above_the_bound(bound: int, text: str) -> None:
    plan = tiny.sized(replace(make_plan(tiny.classifier()), lower_bound_bytes=bound), 1000)
    assert f"Arena: 1,000 bytes, {text}" in texts(ArenaMap(plan).render(100))


def test_shapes_and_quantisation_in_words() -> None:
    b = Builder("q")
    one = b.input("one", "INT8", (2, 3), scale=0.12345678, zero=-5)
    many = b.constant(np.ones((3, 2), np.int8), scale=[1, 2, 3], zero=[0, 0, 0])
    plain = b.input("plain", "FLOAT32", ())
    assert [show.quantisation(t) for t in (one, many, plain)] == ["0.123457, -5", "3 scales, axis 0", "-"]
    assert [show.dims(shape) for shape in ((), (1, -1, 3), (7,))] == ["()", "1×?×3", "7"]


# -- run ---------------------------------------------------------------------------------------------------------------


def test_run_shows_what_is_in_the_arrays(capsys: pytest.CaptureFixture[str]) -> None:
    b = Builder("relu")
    graph = b.graph([b.op("RELU", [b.input("x", "FLOAT32", (2, 4))])])
    x = np.array([[1, -2, 3, 0], [0.5, 9.25, -7, 1]], np.float32)
    rows = cells(arrays.summary(graph, [x], [np.maximum(x, 0)]))
    assert rows[0] == ["in 0", "x", "FLOAT32", "2×4", "-7", "9.25", "0.7188", "[1, 1]", "1 -2 3 0 0.5 9.25 …"]
    assert rows[1][4:] == ["0", "9.25", "1.844", "[1, 1]", "1 0 3 0 0.5 9.25 …"]
    assert cells(arrays.summary(graph, [x[:, :3]], [x]))[0][-1] == "1 -2 3 0.5 9.25 -7", "six are all"
    assert cells(arrays.summary(graph, [x[:0]], [x]))[0][4:] == ["-"] * 5


# -- bench on the host -------------------------------------------------------------------------------------------------

NS = {"interpreted": (8000.0, 9000.0, 10000.0), "compiled": (2000.0, 2000.0, 4000.0)}
NS |= {"c": (5000.0, 7000.0, 8000.0), "python": (9000.0, 9500.0, 9900.0)}


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A comparison on a machine with known times: profiled 3,000 and 500 ns, at best 1,000 and 200."""
    profiles = iter([3000, 500] if i < 2 else [1000 + i % 3, 200 + i % 5] for i in range(10**6))
    monkeypatch.setattr(Session, "profile", lambda self, runs: next(profiles))
    monkeypatch.setattr(comparing, "peak", lambda: Peak(int8=0.064, float32=0.064, l2=1e9))
    monkeypatch.setattr(comparing, "interleaved", lambda runs, **_: {name: Timing(NS[name], 16) for name in runs})
    return compare(Source("dense", tiny.classifier()), Comparison(layers=True, seconds=0.02))


def test_figures_of_bench(rows: list[dict[str, Any]]) -> None:
    interpreted, compiled = rows
    assert [(r["min_us"], r["median_us"], r["ratio"], r["rounds"], r["batch"]) for r in rows] == [
        (8.0, 9.0, 1.0, 3, 16),
        (2.0, 2.0, 4.0, 3, 16),
    ]
    assert [r["spread_us"] for r in rows] == [pytest.approx(1.6), pytest.approx(1.6)], "90th less 10th percentile"
    plan = make_plan(tiny.classifier())
    for row in rows:
        assert (row["operators"], row["macs"]) == (2, 32)
        assert (row["arena_bytes"], row["lower_bound_bytes"]) == (plan.arena_bytes, plan.lower_bound_bytes)
        assert row["constant_bytes"] == plan.constant_bytes
    assert interpreted["dispatch_us"] == (9.0 - 5.0) / 2
    assert "dispatch_us" not in compiled
    assert [[layer["min_us"] for layer in row["layers"]] for row in rows] == [[1.0, 0.2]] * 2, "the shortest"
    assert [layer["macs"] for layer in compiled["layers"]] == [32, 0]


def test_tables_of_bench(rows: list[dict[str, Any]]) -> None:
    rows[1] |= {"compile_cached": False, "compile_s": 1.234, "arena_bytes": 110, "lower_bound_bytes": 100}
    times, sizes, layers, rates, dispatch = report.tables(rows)
    *engines, floor = cells(times)[1:]
    assert engines == [
        ["  interpreted", "8.000", "9.000", "1.600", "1.00", "0.0", "16.00", "same bits"],
        ["  compiled", "2.000", "2.000", "1.600", "4.00", "0.0", "4.00", "same bits"],
    ]
    assert floor == ["  floor", "0.500", "", "", "", "0.1", "1.00", ""]
    assert cells(sizes) == [["dense", "2", "32", f"{rows[1]['constant_bytes']:,}", "110", "100", "10.0 %", "1.23"]]
    assert [row[4:] for row in cells(layers)] == [
        ["32", "1.000", "1.000", "0", "50 %", "83 %", "67 %"],
        ["-", "0.200", "0.200", "-", "-", "17 %", "91 %"],
    ]
    assert "0 GMAC/s of int8" in str(rates)
    assert "2.000 µs per operator, 33.3 % of a run" in str(dispatch)
    fast = {**rows[0], "macs": 16_000_000}
    assert cells(next(iter(report.tables([fast]))))[1][5] == "2000.0", "16 million in 8 us are 2,000 a nanosecond"
    failed = {**rows[0], "min_us": None, "error": "no"}
    assert cells(next(iter(report.tables([failed]))))[1][1:] == ["-"] * 6 + ["failed"]


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


# -- bench on microcontrollers -----------------------------------------------------------------------------------------

ROW: dict[str, Any] = {"model": "m", "engine": "compiled", "target": "cortex-m4", "optimize": "speed", "macs": 4000}
ROW |= {"weights": "file", "decode": "layer", "instructions": 6000, "code_bytes": 3500, "weight_bytes": 1100}
ROW |= {"arena_bytes": 2000, "lower_bound_bytes": 1900, "ram_bytes": 2090, "stack_bytes": 300, "stack_bound_bytes": 320}
ROW |= {"same_bits": True, "max_difference": 0.0, "agrees": True}

LAYER: dict[str, Any] = {"index": 5, "op": "CONV_2D", "kernel": "tw_conv2d_s8", "shape": [1, 2, 3], "macs": 4000}
LAYER |= {"instructions": 4800, "code_bytes": 700, "other_instructions": 5100, "other_code_bytes": 50, "shared": False}

PEER: dict[str, Any] = {"model": "m", "engine": "tflm-cmsis", "target": "cortex-m4", "recorded": "kws", "macs": None}
PEER |= {"instructions": 10_000, "code_bytes": 20_000, "weight_bytes": 1500, "arena_bytes": 4000, "ram_bytes": 4100}
PEER |= {"stack_bytes": 500, "weights_floor_bytes": 1000, "same_bits": None}
SMALL = {**PEER, "engine": "tflm-cmsis-small", "code_bytes": 10_000, "instructions": 15_000}


def test_figures_on_microcontrollers() -> None:
    own = {**ROW, "layers": [LAYER, {**LAYER, "shared": True, "macs": 0}], "instances": {"tw_relu_s8": 1234}}
    figures, layers, instances, *_ = embedded_tables([own, PEER])
    rows = cells(figures)
    assert rows[1][:5] == ["  compiled, speed", "6,000", "1.50", "3,500", "1,100"]
    assert rows[1][5:] == ["2,000", "1,900", "90", "300", "320", "same bits"]
    assert rows[2][1:] == ["10,000", "2.50", "20,000", "1,500", "4,000", "-", "100", "500", "-", "recorded"]
    assert cells(layers) == [
        ["5", "CONV_2D", "s8", "1×2×3", "4,000", "1.20", "80 %", "4,800", "700", "5,100", "50", "own"],
        ["5", "CONV_2D", "s8", "1×2×3", "-", "-", "80 %", "5,100", "50", "4,800", "700", "shared"],
    ]
    assert str(instances) == "Bytes of shared bodies, paid once: tw_relu_s8 1,234."
    narrow = next(iter(embedded_tables([own], 100)))
    assert cells(narrow)[1][1:] == ["6,000", "1.50", "3,500", "1,100", "2,000", "90", "300", "same bits"]
    failed = {**ROW, "instructions": None, "error": "too large"}
    assert cells(next(iter(embedded_tables([failed]))))[1][1:] == ["-"] * 9 + ["failed"]
    wide = cells(next(iter(embedded_tables([{**ROW, "engine": "interpreted", "weights": "lut", "decode": "start"}]))))
    assert wide[1][0] == "  interpreted, lut at the start"


def test_coded_weights_beside_plain_ones() -> None:
    """Flash is code and weights; RAM includes the stack."""
    plain = {**ROW, "weights": "plain"}
    coded = {**ROW, "weights": "lut", "code_bytes": 3600, "weight_bytes": 540, "ram_bytes": 2987, "instructions": 9000}
    (table,) = coding_tables([plain, coded, {**coded, "model": "alone"}, {**plain, "instructions": None}])
    assert cells(table) == [
        ["m, compiled, speed", "", "", "", "", "", ""],
        ["  plain", "4,600", "1.00", "2,390", "1.00", "6,000", "1.00"],
        ["  lut at the layer", "4,140", "0.90", "3,287", "1.38", "9,000", "1.50"],
    ]
    assert list(coding_tables([{**ROW, "weights": "file"}, coded])) == [], "nothing to hold it against"


def test_beside_tflm() -> None:
    """Ratios to the peer at -O3; for code, to its smallest build. Each has its limit, and is good within it."""
    slow = {**ROW, "optimize": "size", "instructions": 9000, "code_bytes": 2000}
    (standing,) = limits.standings([ROW, slow, PEER, SMALL])
    shown = {"speed": ("0.60", True), "size": ("0.90", None)}
    assert {s: (str(v), v.good) for s, v in standing.instructions.items()} == shown
    code = {"speed": ("3,500 0.35", True), "size": ("2,000 0.20", True)}
    assert {s: (str(v), v.good) for s, v in standing.code.items()} == code
    assert [(str(v), v.good) for v in (standing.weights, standing.ram)] == [("1.10", True), ("1.10", True)]
    assert {way: (str(v), v.good) for way, v in standing.arena.items()} == {"auto": ("0.52", True)}
    planned = {**ROW, "memory": "layers", "layers_arena_bytes": ROW["arena_bytes"], "rows_arena_bytes": 0}
    (both,) = limits.standings([planned, PEER])
    assert limits.ways_of([standing, both]) == ["auto", "layers", "rows"]
    assert (str(both.arena["layers"]), str(both.arena["rows"])) == ("0.52", "0.02"), "RAM beside the arena stays"
    (bare,) = limits.standings([ROW, PEER])
    assert (str(bare.code["speed"]), bare.code["speed"].good) == ("3,500", None), "without the smallest build"
    coded = {**ROW, "weights": "lut", "instructions": 1}
    assert limits.standings([ROW, coded, PEER, SMALL])[0].instructions == {"speed": standing.instructions["speed"]}


@pytest.mark.parametrize(
    ("target", "ratio", "setting", "good"),
    [
        ("cortex-m4", 0.70, "speed", True),
        ("cortex-m4", 0.71, "speed", False),
        ("cortex-m55", 0.85, "speed", True),
        ("cortex-m55", 0.86, "speed", False),
        ("cortex-m0", 9, "speed", None),
        ("cortex-m4", 9, "size", None),
    ],
)
def test_limits_of_instructions(target: str, ratio: float, setting: str, good: bool | None) -> None:
    own = {**ROW, "target": target, "optimize": setting, "instructions": round(10_000 * ratio)}
    (standing,) = limits.standings([own, {**PEER, "target": target}])
    assert standing.instructions[setting].good is good


def test_means_are_geometric_and_of_the_benchmark_alone() -> None:
    pairs = {"kws": 4000, "vww": 9000, "hello": 100}
    rows = [
        {**row, "model": name}
        for name, count in pairs.items()
        for row in ({**ROW, "instructions": count}, {**PEER, "recorded": f"alike: {name}"})
    ]
    standings = limits.standings(rows)
    assert [standing.model for standing in standings] == list(pairs)
    average = limits.mean(standings, "speed")
    assert average is not None
    assert (average[0].value, average[1], average[0].good) == (pytest.approx(0.6), 2, False)
    assert limits.mean(standings, "size") is None
    page = Page(embedded_html(rows))
    (chart,), (table,) = page.charts, page.tables
    assert "mean 0.60 (≤ 0.55)" in chart.title
    assert [cell.text for cell in table.foot[:2]] == ["geometric mean of 2", "0.60"]
    assert table.foot[1].attributes["class"] == "bad"
    assert chart.column("ratio") == [count / 10_000 for count in pairs.values()]


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


# -- compile, convert --------------------------------------------------------------------------------------------------


def test_what_compile_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "kws_int8", "-o", str(tmp_path / "c")]) == 0
    plan = make_plan(load("kws_int8").graph, HOST)
    stored = sum(constant.array.nbytes for constant in emit(plan, "kws_int8").constants.all)
    said = f"{len(plan.steps)} layers, {stored:,} constant bytes, arena {plan.arena_bytes:,} bytes"
    assert f"{said} (lower bound {plan.lower_bound_bytes:,}); try: make" in capsys.readouterr().out
    text = (tmp_path / "c" / "kws_int8.h").read_text()
    defined = dict(re.findall(r"#define KWS_INT8_(\w+) (-?\d+)", text))
    wanted = {"ARENA_BYTES": plan.arena_bytes, "LOWER_BOUND_BYTES": plan.lower_bound_bytes, "CONSTANT_BYTES": stored}
    wanted |= {"MACS": plan.macs, "ARENA_ALIGN": 16, "INPUT_COUNT": 1, "OUTPUT_COUNT": 1}
    for kind, tensor in (("INPUT", plan.graph.inputs[0]), ("OUTPUT", plan.graph.outputs[0])):
        facts = {"OFFSET": plan.offsets[tensor], "BYTES": tensor.nbytes, "SIZE": tensor.size, "RANK": len(tensor.shape)}
        wanted |= {f"{kind}_0_{key}": value for key, value in {**facts, "ZERO_POINT": tensor.zero}.items()}
    assert {key: int(defined[key]) for key in wanted} == wanted


def test_what_convert_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The number of operators, how many of them are still float, and the bytes of constants."""
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "d.npz", **{load("digits_float32").graph.inputs[0].name: rng.random((8, 8, 8, 1), np.float32)})
    out = tmp_path / "m.tflite"
    assert main(["convert", "digits_float32", "-o", str(out)]) == 0
    graph = load(str(out)).graph
    count, stored = len(graph.nodes), sum(t.data.nbytes for t in graph.tensors if t.data is not None)
    assert capsys.readouterr().out.startswith(f"{out}: {count} operators, {count} of them float, {stored:,} constant")
    how = ("--quantize", "int8", "--calibration", str(tmp_path / "d.npz"))
    assert main(["convert", "digits_float32", "-o", str(out), *how]) == 0
    graph = load(str(out)).graph
    left = sum(node.outputs[0].type == "FLOAT32" for node in graph.nodes)
    assert f"{len(graph.nodes)} operators, {left} of them float, " in capsys.readouterr().out
