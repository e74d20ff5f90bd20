"""Every case of every operator in every engine: numpy reference, interpreter, compiled C, and the real TFLM or LiteRT.

Compiled C has a file of its own: test_compiled.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from cases import assert_equal, cases_of, distinct_plans, graph_of, interpreted, numpy_outputs, outputs_of, values_of

from twinfer import kernels_c
from twinfer.bench.peers.engines import open_peer
from twinfer.runtime.op import Case
from twinfer.runtime.registry import operators
from twinfer.runtime.run import isa
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import HOST, TARGETS
from twinfer.runtime.write.tflite import write


def all_cases() -> list[Any]:
    return [pytest.param(case, id=name) for op in operators() for name, case in cases_of(op).items()]


@pytest.mark.parametrize("case", all_cases())
def test_reference_and_interpreter(case: Case) -> None:
    graph = graph_of(case.node)
    values = values_of(case, graph)
    want = numpy_outputs(case, graph, values)
    for target, plan in distinct_plans(graph, TARGETS):
        first = outputs_of(Session(plan, 0), values)
        assert_equal(first, want, graph.outputs, case.tolerance, f"interpreter, {target.name}, against numpy")
        for level in range(1, kernels_c.lib.tw_level() + 1):
            got = outputs_of(Session(plan, level), values)
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
    got = interpreted(graph, values, HOST, isa.level())
    assert_equal(got, want, graph.outputs, case.tolerance, f"interpreter against {peer}")
