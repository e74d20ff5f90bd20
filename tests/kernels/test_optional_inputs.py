"""Every operator without each input that it can do without, on every target: planned, proven by replay, and run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np
import pytest
from cases import assert_equal, cases_of, distinct_plans, graph_of, numpy_outputs, outputs_of, values_of
from needs import sampled

from twinfer.aot.build.targets import find, names
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Node
from twinfer.runtime.op import Case, tensor
from twinfer.runtime.program import Call
from twinfer.runtime.registry import operators
from twinfer.runtime.run.session import Session
from twinfer.runtime.shapes import infer_node
from twinfer.runtime.target import TARGETS

#: Every target that kernels are chosen for, and every microcontroller that comes with twinfer.
EVERY_TARGET = (*TARGETS, *(find(name).target for name in names()))


def without_one(case: Case) -> Iterator[Case]:
    """The case without one input each: None in its place and, for the last one, a shorter list."""
    node, last = case.node, len(case.node.inputs) - 1
    for i, given in enumerate(node.inputs):
        for rest in [(None, *node.inputs[i + 1 :]), *([()] if i == last else [])]:
            less = replace(node, inputs=(*node.inputs[:i], *rest))
            if given is not None and _holds(less):
                yield replace(case, node=less, inputs=None)


def _holds(node: Node) -> bool:
    try:
        return [*infer_node(node)] == [tensor.shape for tensor in node.outputs]
    except TwinferError:
        return False


def alike(op: str) -> Mapping[object, list[Any]]:
    """The operator's cases without an input, those of the same types and number of inputs together."""
    groups: dict[object, list[Any]] = {}
    for name, case in cases_of(op).items():
        for less in without_one(case):
            absent = [i for i, (a, b) in enumerate(zip_longest(case.node.inputs, less.node.inputs)) if a is not b]
            kinds = op, *absent, len(less.node.inputs), *(t and t.type for t in (*less.node.inputs, *less.node.outputs))
            groups.setdefault(kinds, []).append(pytest.param(less, id=f"{name}-{absent[0]}-{len(less.node.inputs)}"))
    return groups


EVERY = [case for op in operators() for kind, cases in alike(op).items() for case in sampled(cases, 8, str(kind))]


@pytest.mark.parametrize("case", EVERY)
def test_an_absent_input(case: Case) -> None:
    """Each target's plan gives the bits of the numpy reference, which knows what stands for the absent value."""
    graph = graph_of(case.node)
    values = values_of(case, graph)
    want = numpy_outputs(case, graph, values)
    for target, plan in distinct_plans(graph, EVERY_TARGET):
        assert_equal(outputs_of(Session(plan, 0), values), want, graph.outputs, case.tolerance, target.name)


@pytest.mark.parametrize("wrong", ["input", "output"])
def test_an_argument_of_another_type(wrong: str) -> None:
    """An array in a tensor's place is said at once, with the kernel's name and the place."""
    t = tensor((1,), "INT8", name="t")
    sides: Any = {"input": ([np.zeros(1, np.int8)], [t]), "output": ([t], [None])}
    with pytest.raises(RuntimeError, match=rf"tw_copy: {wrong} 0 is a "):
        Call("tw_copy", {"size": 1}, *sides[wrong])
