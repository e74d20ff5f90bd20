"""The table of operators: complete, the only place of such facts, and enough for a new operator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from twinfer.converter.build import Builder
from twinfer.converter.convert import conversion
from twinfer.converter.facts import UNKNOWN
from twinfer.converter.table import ROWS, row_of
from twinfer.converter.text import text
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.read import schema
from twinfer.runtime.registry import operators

#: Operators of TFLite without kernel and row in twinfer: names for operators that the tests add.
NEW_LAYER, NEW_FUNCTION, NEW_MOVE = "LSH_PROJECTION", "COMPLEX_ABS", "DILATE"


def test_every_operator_has_one_row() -> None:
    builtin = {op for op in ROWS if not op.startswith("CUSTOM:")}
    assert set(operators()) <= set(ROWS)
    assert builtin <= set(schema.ENUMS["BuiltinOperator"].names)
    assert row_of(Node("CUSTOM:mine", (), ())) is UNKNOWN


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


# -- an operator that is new -------------------------------------------------------------------------------------------


def add(patch: pytest.MonkeyPatch, name: str, like: str, **facts: Any) -> None:
    patch.setitem(operators(), name, replace(operators()[like], name=name))  # type: ignore[arg-type]
    patch.setitem(ROWS, name, replace(ROWS[like], **facts))
    patch.setattr("twinfer.converter.convert._planned", lambda graph: None)  # a file of it cannot be written


def renamed(graph: Graph, old: str, new: str) -> Graph:
    nodes = tuple(replace(n, op=new) if n.op == old else n for n in graph.nodes)
    return replace(graph, nodes=nodes)


def layers(rng: np.random.Generator) -> Graph:
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
    kinds = {None: 1, "int16x8": 50}  # what a source states of a version stays
    assert {n.version for n in new.graph.nodes if n.op == NEW_LAYER} == {kinds.get(how.get("quantize"), 40)}


def assert_same(wanted: Graph, graph: Graph) -> None:
    assert text(graph) == text(wanted)
    for old, new in zip(wanted.nodes, graph.nodes, strict=True):
        for a, b in zip(old.inputs, new.inputs, strict=True):
            np.testing.assert_array_equal(data(a), data(b))


def data(tensor: Tensor | None) -> Any:
    return None if tensor is None else tensor.data
