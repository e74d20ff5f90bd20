"""Composites of .tflite files: their operators stand in the place of the calls, wherever that is the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import outputs_of

import twinfer
from twinfer.converter.build import Builder
from twinfer.converter.composites import COMPOSITE, without_composites
from twinfer.runtime.graph import Graph, Signature
from twinfer.runtime.op import tensor
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session


def body(name: str, *calls: int, bare: bool = False) -> Graph:
    """exp(x) / 2, then the composites ``calls`` of that; ``bare``: nothing at all."""
    b = Builder(name)
    x = b.input("x", "FLOAT32", (1, 4))
    y = x if bare else b.op("MUL", [b.op("NEG", [x]), np.array(0.5, np.float32)])
    for call in calls:
        (y,) = b.node(COMPOSITE, [y], [tensor((1, 4), name="inner")], {"decomposition_subgraph_index": call})
    return b.graph([y])


def model(*calls: int, others: list[Graph], shape: tuple[int, ...] = (1, 4)) -> Graph:
    b = Builder("net")
    y = b.input("x", "FLOAT32", shape)
    for i, call in enumerate(calls):
        (y,) = b.node(COMPOSITE, [y], [tensor(shape, name=f"y{i}")], {"decomposition_subgraph_index": call})
    return b.graph([y], subgraphs=others)


def results(graph: Graph) -> list[Any]:
    return outputs_of(Session(make_plan(graph)), random_inputs(graph, 1))


@pytest.mark.parametrize(
    ("graph", "ops"),
    [
        (model(1, 1, others=[body("half")]), ["NEG", "MUL"] * 2),
        (model(1, others=[body("outer", 2, 2), body("half")]), ["NEG", "MUL"] * 3),
        (model(1, others=[body("same", bare=True)]), [COMPOSITE]),
    ],
    ids=["twice", "nested", "nothing inside"],
)
def test_calls(graph: Graph, ops: list[str]) -> None:
    flat = without_composites(graph)
    assert [node.op for node in flat.nodes] == ops
    assert len(flat.subgraphs) == (1 if COMPOSITE in ops else 0)
    for got, want in zip(results(flat), results(graph), strict=True):
        np.testing.assert_array_equal(got, want)


def test_other_shapes_stay() -> None:
    graph = model(1, others=[body("half")], shape=(2, 4))
    assert [node.op for node in without_composites(graph).nodes] == [COMPOSITE]


def test_subgraphs_of_signatures_stay() -> None:
    graph = model(1, others=[body("half"), body("other", 1)])
    key = Signature("other", {"x": graph.subgraphs[1].inputs[0]}, {"y": graph.subgraphs[1].outputs[0]}, 2)
    flat = without_composites(Graph(**{**vars(graph), "signatures": (key,)}))
    assert len(flat.subgraphs) == 2
    assert flat.signatures[0].subgraph == 2


def test_they_can_be_quantised() -> None:
    graph = model(1, others=[body("half")])
    rows = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    converted = twinfer.convert(graph, quantize="int8", calibration=rows)
    assert {t.type for node in converted.nodes for t in node.outputs} == {"INT8"}
