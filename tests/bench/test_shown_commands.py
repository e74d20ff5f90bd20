"""Figures that people read, computed again from their sources: plans, shapes and times."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from rich.table import Table

from twinfer.aot.print.emit import emit
from twinfer.bench.host.peak import Peak
from twinfer.bench.measure import compare as comparing
from twinfer.bench.measure import report
from twinfer.bench.measure.compare import Comparison, compare
from twinfer.bench.measure.turns import Timing
from twinfer.bench.models.source import Source, load
from twinfer.bench.models.verify import Difference, Line, Proof
from twinfer.command_line import arrays
from twinfer.command_line.main import main
from twinfer.command_line.show import model as show
from twinfer.command_line.show.matrix import findings, matrix
from twinfer.command_line.show.memory import ArenaMap
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
    monkeypatch.setattr(comparing, "interleave", lambda runs, **_: {name: Timing(NS[name], 16) for name in runs})
    return compare(Source("dense", tiny.classifier()), Comparison(layers=True, seconds=0.02))


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
