"""Every case of every operator, all ways: numpy reference, interpreter, compiled C, and the real TFLM or LiteRT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from twinfer import kernels_c
from twinfer.bench.peers import open_peer
from twinfer.converter.write import write
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.op import Case
from twinfer.runtime.plan import make_plan, random_inputs
from twinfer.runtime.registry import operators
from twinfer.runtime.session import Session
from twinfer.runtime.target import GENERIC, HOST

SEED = 20261121


def all_cases() -> list[Any]:
    found = []
    for name, op in operators().items():
        for i, case in enumerate(op.cases(np.random.default_rng(SEED))):
            found.append(pytest.param(case, id=f"{name.lower()}-{i}"))
    return found


def graph_of(node: Node) -> Graph:
    """The node alone as a model; tensors get names of their own (LiteRT and TFLM key on nothing, people do)."""
    inputs = tuple(dict.fromkeys(t for t in node.inputs if t is not None and t.data is None))
    constants = tuple(dict.fromkeys(t for t in node.inputs if t is not None and t.data is not None))
    return Graph("case", (*inputs, *constants, *node.outputs), (node,), inputs, node.outputs)


def values_of(case: Case, graph: Graph) -> list[Any]:
    if case.inputs is not None:
        return list(case.inputs)
    return [v * 3 if v.dtype.kind == "f" else v for v in random_inputs(graph, SEED)]


def numpy_outputs(case: Case, graph: Graph, values: Sequence[Any]) -> list[Any]:
    fed = dict(zip(graph.inputs, values, strict=True))
    inputs = [None if t is None else t.data if t.data is not None else fed[t] for t in case.node.inputs]
    outputs = operators()[case.node.op].reference(case.node, inputs)
    for tensor, value in zip(case.node.outputs, outputs, strict=True):
        assert value.dtype == tensor.dtype, f"reference gives {value.dtype} for {tensor}"
        assert value.shape == tensor.shape, f"reference gives {value.shape} for {tensor}"
    return outputs


def interpreted(graph: Graph, values: Sequence[Any], target: Any, level: int) -> list[Any]:
    session = Session(make_plan(graph, target), level)
    session.arena[:] = 0xA5  # nothing may lean on zeroed memory
    for tensor, value in zip(graph.inputs, values, strict=True):
        session.view(tensor)[...] = value
    session.run()
    return [session.view(t).copy() for t in graph.outputs]


def assert_equal(
    got: Sequence[Any], want: Sequence[Any], tensors: Sequence[Tensor], tolerance: float, who: str
) -> None:
    for g, w, tensor in zip(got, want, tensors, strict=True):
        w = np.asarray(w).reshape(tensor.shape)
        if tensor.dtype.kind == "f":
            np.testing.assert_allclose(g, w, rtol=0, atol=tolerance, err_msg=f"{who}: {tensor}")
        else:
            np.testing.assert_array_equal(g, w, err_msg=f"{who}: {tensor}")


@pytest.mark.parametrize("case", all_cases())
def test_reference_and_interpreter(case: Case) -> None:
    graph = graph_of(case.node)
    values = values_of(case, graph)
    want = numpy_outputs(case, graph, values)
    for target in (HOST, GENERIC):
        first = interpreted(graph, values, target, 0)
        assert_equal(first, want, graph.outputs, case.tolerance, f"interpreter, {target.name}, against numpy")
        for level in range(1, kernels_c.lib.tw_level() + 1):
            got = interpreted(graph, values, target, level)
            assert_equal(got, first, graph.outputs, 0, f"interpreter, {target.name}, level {level} against level 0")


@pytest.mark.parametrize("case", all_cases())
def test_oracle(case: Case) -> None:
    if case.oracle == "none":
        assert case.why, "a case without an oracle says why"
        return
    peer = {"tflm": "tflm", "litert": "litert-ref"}[case.oracle]
    graph = graph_of(case.node)
    values = values_of(case, graph)
    want = open_peer(peer, write(graph), len(graph.outputs))(values)
    got = interpreted(graph, values, HOST, kernels_c.level())
    assert_equal(got, want, graph.outputs, case.tolerance, f"interpreter against {peer}")
