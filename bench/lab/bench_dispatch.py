"""The cost of the loop in Python per operator: at most 0.2 µs over the same calls from C. ``make bench`` runs it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from twinfer.bench.measure.turns import interleaved
from twinfer.converter.build import Builder
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session

STEPS = 100

#: The most that dispatch may cost per operator, in nanoseconds.
LIMIT_NS = 200


@pytest.fixture(scope="module")
def session() -> Session:
    """A hundred operators that do next to nothing: RELU of one element each."""
    b = Builder("dispatch")
    x = b.input("x", "FLOAT32", (1,))
    for _ in range(STEPS):
        x = b.op("RELU", [x])
    opened = Session(make_plan(b.graph([x])))
    opened.view(opened.plan.graph.inputs[0])[...] = np.float32(1)
    assert len(opened.plan.steps) == STEPS
    return opened


def bench_loop_in_c(benchmark: Any, session: Session) -> None:
    benchmark(session.run)


def bench_loop_in_python(benchmark: Any, session: Session) -> None:
    benchmark(session.run_observed, None)


def bench_loop_in_python_with_hook(benchmark: Any, session: Session) -> None:
    benchmark(session.run_observed, lambda position, step: None)


def bench_overhead_is_within_its_limit(benchmark: Any, session: Session) -> None:
    times = interleaved({"c": session.run, "python": lambda: session.run_observed(None)}, seconds=0.5)
    overhead = (times["python"].min - times["c"].min) / STEPS
    benchmark.extra_info["dispatch_ns_per_operator"] = overhead
    benchmark(session.run_observed, None)
    assert overhead <= LIMIT_NS
