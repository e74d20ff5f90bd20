"""The table of operators: complete, the only place of such facts, and enough for a new operator."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import ROOT

from twinfer.converter import operators as families
from twinfer.converter.build import Builder
from twinfer.converter.convert import conversion
from twinfer.converter.facts import UNKNOWN, Moves, Row
from twinfer.converter.passes import run
from twinfer.converter.table import ROWS, row_of, rows_in
from twinfer.converter.text import text
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.read import schema
from twinfer.runtime.registry import operators

#: Operators of TFLite without kernel and row in twinfer: names for operators that the tests add.
NEW_LAYER, NEW_FUNCTION, NEW_MOVE = "CONV_3D", "COMPLEX_ABS", "BITCAST"


def test_every_operator_has_one_row() -> None:
    builtin = {op for op in ROWS if not op.startswith("CUSTOM:")}
    assert set(operators()) <= set(ROWS)
    assert builtin <= set(schema.ENUMS["BuiltinOperator"].names)
    assert row_of(Node("CUSTOM:mine", (), ())) is UNKNOWN


def test_no_operator_stands_in_two_families() -> None:
    folder = ROOT / "converter" / "operators"
    names = [
        key.value
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Assign) and [t.id for t in node.targets if isinstance(t, ast.Name)] == ["ROWS"]
        for key in node.value.keys  # type: ignore[attr-defined]
    ]
    assert sorted(names) == sorted(ROWS)


@pytest.mark.parametrize("op", ROWS)
def test_facts_agree(op: str) -> None:
    row = ROWS[op]
    at = row.parameters
    assert set(row.types) <= {"INT8", "INT16"}
    assert row.types or row.scales == UNKNOWN.scales, "scales of an operator without integer kernels"
    assert row.scales.fixed16 is None or "INT16" in row.types
    assert not (row.scales.same and (row.scales.fixed8 or row.scales.fixed16)), "both shared and fixed"
    assert row.moves is None or (row.scales.same and not row.elementwise), "values that are moved keep their scale"
    assert row.fill is None or (row.fills and row.values is not None and row.fill not in row.values)
    assert not row.clamps or row.elementwise
    assert row.padding in (None, "zero", "least")
    assert row.range[0] < row.range[1]
    assert at is None or {at.weights, at.bias}.isdisjoint(row.values or ())
    assert all(version > 1 for version in (*row.versions.values(), *(version for version, _ in row.needs)))


def test_no_list_of_operators_elsewhere() -> None:
    """Facts of operators are in rows. A pass may name the operators of its pattern, at most four in one place."""
    parts = ("passes", "quantize", "compress", "onnx", "search")
    files = [path for part in parts for path in (ROOT / "converter" / part).glob("*.py")]
    files += (ROOT / "converter").glob("*.py")
    assert len(files) > 70
    lists = {f"{path.relative_to(ROOT)}: {names}" for path in files for names in lists_of_operators(path)}
    assert lists == set()


def lists_of_operators(path: Path) -> Iterator[list[str]]:
    """Literals with the names of more than four operators."""
    known = set(ROWS)
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
            entries = node.keys if isinstance(node, ast.Dict) else node.elts
            names = [e.value for e in entries if isinstance(e, ast.Constant) and e.value in known]
            if len(names) > 4:
                yield names


# -- an operator that is new -------------------------------------------------------------------------------------------


def add(patch: pytest.MonkeyPatch, name: str, like: str, **facts: Any) -> None:
    """Adds an operator that computes as another one does, and its row."""
    patch.setitem(operators(), name, replace(operators()[like], name=name))  # type: ignore[arg-type]
    patch.setitem(ROWS, name, replace(ROWS[like], **facts))
    patch.setattr("twinfer.converter.convert._check_runs", lambda graph: None)  # a file of it cannot be written


def renamed(graph: Graph, old: str, new: str) -> Graph:
    nodes = tuple(replace(n, op=new) if n.op == old else n for n in graph.nodes)
    return replace(graph, nodes=nodes)


def layers(rng: np.random.Generator) -> Graph:
    """Two dense layers with a factor and a RELU behind the first."""
    b = Builder("layers")
    x = b.input("x", "FLOAT32", (1, 12))
    y = b.op("FULLY_CONNECTED", [x, rng.normal(size=(16, 12)).astype(np.float32)])
    y = b.op("RELU", [b.op("MUL", [y, rng.normal(size=16).astype(np.float32)])])
    y = b.op("FULLY_CONNECTED", [y, rng.normal(size=(8, 16)).astype(np.float32), np.ones(8, np.float32)])
    return b.graph([y])


@pytest.mark.filterwarnings("ignore:the int.* model:UserWarning")
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"quantize": "int8"},
        {"quantize": "int16x8", "bias_correction": True},
        {"quantize": "int4", "equalize": True, "adaptive_rounding": True},
        {"quantize": "int8", "prune": 0.5, "cluster": 3, "compensate": True},
    ],
    ids=str,
)
def test_a_row_is_all_that_a_new_layer_needs(how: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is fused, folded, quantised, equalised, pruned and clustered like the layer whose facts it has."""
    rng = np.random.default_rng(1)
    graph = layers(rng)
    data = {"calibration": {"x": rng.normal(size=(20, 12)).astype(np.float32)}} if how else {}
    add(monkeypatch, NEW_LAYER, "FULLY_CONNECTED", versions={"FLOAT32": 30, "INT8": 40, "INT16": 50}, needs=())
    wanted = conversion(graph, **how, **data)
    new = conversion(renamed(graph, "FULLY_CONNECTED", NEW_LAYER), **how, **data)
    assert [n.op for n in new.graph.nodes if n.op != "QUANTIZE"] == [NEW_LAYER] * 2
    assert_same(wanted.graph, renamed(new.graph, NEW_LAYER, "FULLY_CONNECTED"))
    kinds = {None: 30, "int16x8": 50}
    assert {n.version for n in new.graph.nodes if n.op == NEW_LAYER} == {kinds.get(how.get("quantize"), 40)}


def assert_same(wanted: Graph, graph: Graph) -> None:
    """The same operators over the same tensors, versions aside."""
    assert text(graph) == text(wanted)
    for old, new in zip(wanted.nodes, graph.nodes, strict=True):
        for a, b in zip(old.inputs, new.inputs, strict=True):
            np.testing.assert_array_equal(data(a), data(b))


def data(tensor: Tensor | None) -> Any:
    return None if tensor is None else tensor.data


def test_a_row_is_all_that_a_new_function_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes another order with its neighbours, its range makes a clip needless, and it has the scale of its row."""
    b = Builder("function")
    x = b.op("TRANSPOSE", [b.input("x", "FLOAT32", (1, 2, 3, 4)), np.array([0, 2, 3, 1], np.int32)])
    y = b.op("RELU_N1_TO_1", [b.op("TANH", [x])])
    graph = b.graph([b.op("TRANSPOSE", [y, np.array([0, 3, 1, 2], np.int32)])])
    facts = {"range": (-1.0, 1.0), "scales": replace(ROWS["TANH"].scales, fixed8=(1 / 64, 3))}
    add(monkeypatch, NEW_FUNCTION, "TANH", **facts)
    new = renamed(graph, "TANH", NEW_FUNCTION)
    assert [n.op for n in run(new).nodes] == [NEW_FUNCTION]
    samples = {"x": np.random.default_rng(2).normal(size=(5, 2, 3, 4)).astype(np.float32)}
    (node,) = conversion(new, quantize="int8", calibration=samples).graph.nodes
    assert (node.op, node.output.scale, node.output.zero) == (NEW_FUNCTION, 1 / 64, 3)


def test_a_row_is_all_that_a_new_move_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that keeps the order is left out if the shape stays, and shares one scale."""
    monkeypatch.setitem(operators(), NEW_MOVE, replace(operators()["ABS"], name=NEW_MOVE))  # type: ignore[arg-type]
    b = Builder("move")
    y = b.op("EXP", [b.input("x", "FLOAT32", (1, 4))])
    graph = b.graph([b.op("EXP", [b.op(NEW_MOVE, [y])])])
    assert [n.op for n in run(graph).nodes] == ["EXP", NEW_MOVE, "EXP"]
    monkeypatch.setitem(ROWS, NEW_MOVE, Row(moves=Moves.KEEPS_PLACES))
    assert [n.op for n in run(graph).nodes] == ["EXP", "EXP"]


def test_a_family_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "from twinfer.converter.facts import Row\nROWS = {'UNIQUE': Row(reduces=True)}\n", "utf-8"
    )
    (tmp_path / "_shared.py").write_text("raise AssertionError('not a family')\n", "utf-8")
    monkeypatch.setattr(families, "__path__", [*families.__path__, str(tmp_path)])
    monkeypatch.setattr(families, "mine", None, raising=False)
    monkeypatch.delitem(sys.modules, "twinfer.converter.operators.mine", raising=False)
    rows = rows_in(families)
    sys.modules.pop("twinfer.converter.operators.mine")
    assert rows.keys() - ROWS.keys() == {"UNIQUE"}
    assert rows["UNIQUE"].reduces
