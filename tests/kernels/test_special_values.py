"""Float operators over infinities, NaN, zeros of both signs, subnormal, largest and least values: every case of every
operator in numpy, on every target's plan and every level, by rows, and in its oracle. test_compiled.py has compiled C.

All compare bits, but for NaNs, which are all alike; ``special.KNOWN`` says where twinfer differs from its oracle on
purpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import special
from cases import about, cases_of, distinct_plans, graph_of, numpy_outputs, outputs_of, values_of
from needs import sampled

from twinfer import kernels_c
from twinfer.bench.peers.engines import open_peer
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.op import Case
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.registry import operators
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import HOST, TARGETS
from twinfer.runtime.write.tflite import write

PEERS = {"tflm": "tflm", "litert": "litert-ref"}


def float_cases(op: str) -> dict[str, Case]:
    """Those with float inputs, and a sample of them again with special values among their constants."""
    named = cases_of(op).items()
    fed = {
        name: case for name, case in named if any(special.is_float(t) and t.size for t in graph_of(case.node).inputs)
    }
    changed = {f"{name}-constants": special.with_special_constants(case) for name, case in fed.items()}
    return fed | dict(sampled([(name, case) for name, case in changed.items() if case], 3, op))


@pytest.mark.parametrize("op", operators())
def test_special_values(op: str) -> None:
    for name, case in float_cases(op).items():
        with about(name):
            assert_special_values(case)


def assert_special_values(case: Case) -> None:
    graph = graph_of(case.node)
    try:
        plans = [*distinct_plans(graph, TARGETS)]
    except TwinferError:  # constants that are not finite may be refused
        return
    plans.append((HOST, make_plan(graph, HOST, Options(memory="rows"))))
    runs = dict(special.samples(values_of(case, graph), graph))
    with np.errstate(all="ignore"):
        wanted = {name: numpy_outputs(case, graph, inputs) for name, inputs in runs.items()}
    first: dict[str, list[Array]] = {}
    for target, plan in plans:
        for level in range(kernels_c.lib.tw_level() + 1):
            session = Session(plan, level)
            for name, inputs in runs.items():
                got = outputs_of(session, inputs)
                if name not in first:
                    first[name] = got
                    assert_same(got, wanted[name], f"{name}: {target.name} against numpy", case.tolerance)
                assert_same(got, first[name], f"{name}: {target.name}, level {level}, against {plans[0][0].name}")
    if case.oracle != "none":
        _against_oracle(case, graph, runs, first)


def assert_same(got: Sequence[Array], want: Sequence[Array], who: str, tolerance: float = 0.0) -> None:
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        wrong = special.differing(g, w, tolerance)
        assert not wrong.any(), f"{who}, output {i}: {g[wrong][:5]}, not {np.reshape(w, g.shape)[wrong][:5]}"


def _against_oracle(case: Case, graph: Graph, runs: dict[str, list[Any]], got: dict[str, list[Array]]) -> None:
    content, wrong = write(graph), []
    peer = open_peer(PEERS[case.oracle], content, len(graph.outputs))
    for name, inputs in runs.items():
        peer.reset()
        try:
            want = peer(inputs)
        except (RuntimeError, ValueError):
            assert case.node.op in special.REFUSED, f"{PEERS[case.oracle]} refuses {name}"
            peer = open_peer(PEERS[case.oracle], content, len(graph.outputs))
            continue
        wrong += [f"{name}: {fault}" for fault in special.unexplained(case, inputs, got[name], want)]
    assert not wrong, f"against {PEERS[case.oracle]}: {wrong}"
