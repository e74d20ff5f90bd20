"""For tests of passes: graphs in few lines, and whether two of them compute the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from cases import outputs_of

from twinfer.runtime.graph import Graph
from twinfer.runtime.plan import make_plan, random_inputs
from twinfer.runtime.session import Session
from twinfer.runtime.target import HOST

#: Floats may differ by this much of the largest value: sums are taken in another order, constants multiplied before.
ROUNDING = 1e-5


def outputs(graph: Graph, feeds: Sequence[Sequence[Any]]) -> list[Any]:
    """The outputs of every run in turn, by the interpreter's engine."""
    engine = Session(make_plan(graph, HOST))
    return [value for values in feeds for value in outputs_of(engine, values)]


def assert_same(before: Graph, after: Graph, seeds: Sequence[int] = (1, 2)) -> None:
    """Inputs and outputs of the same names, types and shapes; integers bit by bit, floats within rounding."""
    for ours, theirs in ((before.inputs, after.inputs), (before.outputs, after.outputs)):
        assert [(t.name, t.type, t.shape) for t in ours] == [(t.name, t.type, t.shape) for t in theirs]
    feeds = [random_inputs(before, seed) for seed in seeds]
    for want, got in zip(outputs(before, feeds), outputs(after, feeds), strict=True):
        if want.dtype.kind == "f":
            bound = ROUNDING * float(np.abs(want).max(initial=1e-3, where=np.isfinite(want)))
            np.testing.assert_allclose(got, want, rtol=0, atol=bound)
        else:
            np.testing.assert_array_equal(got, want)
