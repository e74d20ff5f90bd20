"""Every case of every operator in every engine: numpy reference, interpreter, compiled C, and the real TFLM or LiteRT.

Compiled C has a file of its own: test_compiled.py.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from cases import about, assert_equal, cases_of, distinct_plans, graph_of, numpy_outputs, outputs_of, values_of

from twinfer import kernels_c
from twinfer.bench.peers.engines import open_peer
from twinfer.runtime.graph import Node
from twinfer.runtime.op import Case
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.registry import operators
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import AVX2, DSP, GENERIC, HOST, MVE, TARGETS
from twinfer.runtime.write.tflite import write


@pytest.mark.parametrize("op", operators())
def test_reference_and_interpreter(op: str) -> None:
    for name, case in cases_of(op).items():
        with about(name):
            assert_same_in_all_engines(case)


def assert_same_in_all_engines(case: Case) -> None:
    graph = graph_of(case.node)
    values = values_of(case, graph)
    want = numpy_outputs(case, graph, values)
    ours: list[Any] = []
    for target, plan in distinct_plans(graph, TARGETS):
        first = outputs_of(Session(plan, 0), values)
        ours = ours or first
        assert_equal(first, want, graph.outputs, case.tolerance, f"interpreter, {target.name}, against numpy")
        for level in range(1, kernels_c.lib.tw_level() + 1):
            got = outputs_of(Session(plan, level), values)
            assert_equal(got, first, graph.outputs, 0, f"interpreter, {target.name}, level {level} against level 0")
    if case.oracle == "none":
        assert case.why, "a case without an oracle says why"
        return
    peer = {"tflm": "tflm", "litert": "litert-ref"}[case.oracle]
    theirs = open_peer(peer, write(graph), len(graph.outputs))(values)
    assert_equal(ours, theirs, graph.outputs, case.tolerance, f"interpreter against {peer}")


def multiplications(node: Node) -> int:
    """Multiply-accumulates of an operator with weights: each weight once for every pixel, row or step that meets it."""
    x, y = node.input(0), node.output
    if node.op == "BATCH_MATMUL":
        return y.size * x.shape[-2 if node.options.get("adj_x") else -1]
    if node.op == "TRANSPOSE_CONV":
        return math.prod(node.input(2).shape[:3]) * node.input(1).size
    if node.op in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        return math.prod(y.shape[:3]) * node.input(1).size
    if node.op == "FULLY_CONNECTED":
        return x.size // node.input(1).shape[1] * node.input(1).size
    if node.op == "LSTM" and len(node.inputs) == 5:
        return x.shape[0] * node.input(2).size
    matrices = [t.size for t in node.inputs[1:] if t is not None and len(t.shape) == 2 and not t.variable]
    diagonal = [t.size**2 for t in node.inputs[5:9] if t is not None and len(t.shape) == 1] if "LSTM" in node.op else []
    return math.prod(x.shape[:-1]) * sum(matrices + diagonal)


@pytest.mark.parametrize(
    "op", ["BATCH_MATMUL", "TRANSPOSE_CONV", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "SVDF", "LSTM", "RNN",
           "UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_LSTM",
           "BIDIRECTIONAL_SEQUENCE_RNN"]
)  # fmt: skip
def test_multiplications_are_counted(op: str) -> None:
    """Every kernel of a case says so, whatever it pads."""
    for name, case in [*cases_of(op).items()][:: 1 if "SEQUENCE" in op or len(op) < 5 else 4]:
        for target in (GENERIC, DSP, MVE, HOST, AVX2):
            plan, wanted = make_plan(graph_of(case.node), target), multiplications(case.node)
            if any(step.node.op == "GATHER" for step in plan.steps):  # of uint8, where some channels come twice
                assert wanted < plan.macs <= 1.25 * wanted, (name, target.name)
            else:
                assert plan.macs == wanted, (name, target.name)
