"""For tests of passes: graphs in few lines, and whether two of them compute the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from cases import outputs_of

from twinfer.converter.build import Builder
from twinfer.converter.passes import Pass
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import HOST

Build = Callable[[Builder], list[Tensor]]

#: Name of a case -> the pass and the graph.
CASES: dict[str, tuple[Pass, Build]] = {}

CONV = {"stride_h": 1, "stride_w": 1}


def shows(step: Pass) -> Callable[[Build], Build]:
    """Adds a function that builds a graph to the cases."""

    def register(build: Build) -> Build:
        CASES[build.__name__] = step, build
        return build

    return register


def floats(*shape: int) -> Any:
    """Different numbers, none of them 0 or 1."""
    return (np.arange(np.prod(shape)) % 7 / 4 - 0.8).reshape(shape).astype(np.float32)


def bytes_(*shape: int) -> Any:
    return (np.arange(np.prod(shape)) * 29 % 255 - 127).reshape(shape).astype(np.int8)


def order(*axes: int) -> Any:
    return np.array(axes, np.int32)


def f(*values: float) -> Any:
    return np.array(values if len(values) > 1 else values[0], np.float32)


#: Floats may differ by this share of the largest value: sums have another order, and constants are multiplied before.
ROUNDING = 1e-5


def outputs(graph: Graph, feeds: Sequence[Sequence[Any]]) -> list[Any]:
    """The outputs of every run in turn, by the interpreter's engine; each tensor has memory of its own."""
    engine = Session(make_plan(graph, HOST, Options(preserve_all=True)))
    return [value for values in feeds for value in outputs_of(engine, values)]


def assert_same(before: Graph, after: Graph, seeds: Sequence[int] = (1, 2)) -> None:
    """Inputs and outputs of the same names, types and shapes; integers bit by bit, floats within rounding."""
    for ours, theirs in ((before.inputs, after.inputs), (before.outputs, after.outputs)):
        assert [(t.name, t.type, t.shape) for t in ours] == [(t.name, t.type, t.shape) for t in theirs]
    feeds = [random_inputs(before, seed) for seed in seeds]
    for want, got in zip(outputs(before, feeds), outputs(after, feeds), strict=True):
        if want.dtype.kind == "f":
            ends = [np.abs(value) == np.finfo(value.dtype).max for value in (got, want)]
            got = np.where(ends[0] & ends[1], want, got)  # x / 0 has the sign of that 0, which sums need not keep
            bound = ROUNDING * float(np.abs(want).max(initial=1e-3, where=np.isfinite(want)))
            np.testing.assert_allclose(got, want, rtol=0, atol=bound)
        else:
            np.testing.assert_array_equal(got, want)
