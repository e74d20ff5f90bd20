"""MediaPipe's custom operators: what ``convert`` makes of them gives the same, here and by LiteRT's own operators."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import twinfer
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Graph, Node
from twinfer.runtime.op import Case
from twinfer.runtime.ops.pool.max_pool_argmax import example
from twinfer.runtime.ops.pool.max_unpool import NAMES
from twinfer.runtime.registry import operator, operators
from twinfer.runtime.run.inputs import random_inputs

CUSTOM = ("CUSTOM:Convolution2DTransposeBias", "CUSTOM:MaxPoolingWithArgmax2D", *NAMES)


def graph_of(node: Node) -> Graph:
    inputs = tuple(t for t in node.inputs if t is not None and t.data is None)
    every = [*(t for t in node.inputs if t is not None), *node.outputs]
    return Graph("net", tuple(dict.fromkeys(every)), (node,), inputs, node.outputs)


def by_litert(graph: Graph, values: Any) -> list[Any]:
    engine = Interpreter(model_content=twinfer.write(graph), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    engine.allocate_tensors()
    for detail, value in zip(engine.get_input_details(), values, strict=True):
        engine.set_tensor(detail["index"], value)
    engine.invoke()
    return [engine.get_tensor(detail["index"]) for detail in engine.get_output_details()]


@pytest.mark.parametrize("name", CUSTOM)
def test_by_builtin_operators(name: str) -> None:
    counts = Counter[str]()
    for case in operators()[name].cases(np.random.default_rng(0)):
        converted = twinfer.convert(graph_of(case.node))
        values = _values(case)
        given = [None if t is None else t.data for t in case.node.inputs]
        whole = [next(fed) if v is None else v for fed in [iter(values)] for v in given]
        wanted = operator(case.node).reference(case.node, whole)
        builtin = not any(node.op.startswith("CUSTOM:") for node in converted.nodes)
        counts["builtin" if builtin else "kept"] += 1
        for got in [_by_ours(converted, values), *([by_litert(converted, values)] if builtin else [])]:
            for value, want in zip(got, wanted, strict=True):
                np.testing.assert_allclose(value, want, atol=1e-4)
    assert counts["builtin"] >= (10 if "Pool" in name else 5) or "Unpool" in name
    assert counts["builtin"] >= 1 or name == NAMES[1]


def _values(case: Case) -> list[Any]:
    return list(case.inputs) if case.inputs is not None else random_inputs(graph_of(case.node), 1)


def _by_ours(graph: Graph, values: Any) -> list[Any]:
    engine = twinfer.Interpreter.from_graph(graph)
    engine.allocate_tensors()
    for detail, value in zip(engine.get_input_details(), values, strict=True):
        engine.set_tensor(detail["index"], value)
    engine.invoke()
    return [engine.get_tensor(detail["index"]) for detail in engine.get_output_details()]


def test_numbers_that_nobody_reads_cost_nothing() -> None:
    node = example((1, 4, 4, 2), (2, 2), (2, 2), 2)
    graph = graph_of(node)
    converted = twinfer.convert(Graph("net", graph.tensors, graph.nodes, graph.inputs, node.outputs[:1]))
    assert [each.op for each in converted.nodes] == ["MAX_POOL_2D"]


@pytest.mark.parametrize("options", [b"", b"\0" * 24, bytes([1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0] * 2)])
@pytest.mark.parametrize("name", CUSTOM)
def test_damaged_options_are_said(name: str, options: bytes) -> None:
    case = next(iter(operators()[name].cases(np.random.default_rng(0))))
    node = Node(name, case.node.inputs, case.node.outputs, extra={"custom_options": options})
    with pytest.raises(ModelError, match=r"custom options have|its padding is|its strides are"):
        operators()[name].infer(node)
