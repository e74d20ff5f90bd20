"""ADD_N: the sum of any number of tensors of one shape. Source of the rules: TFLM kernels/add_n.cc, LiteRT add_n.cc."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import SUFFIX, Case, Op, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.ops.core.total import FAULT, OVERFLOW, check_total, rescaled, total_params
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def _inputs(node: Node) -> list[Tensor]:
    return [node.input(i) for i in range(len(node.inputs))]


def infer(node: Node) -> list[Shape]:
    need(len(node.inputs) >= 2 and len(node.outputs) == 1, node, "it needs two inputs or more, and one output")
    x, y = node.input(0), node.output
    need_type(node, x, "FLOAT32", "INT32", "INT8")
    for t in (*_inputs(node), y):
        need(t.type == x.type, node, f"{t} must have the type of {x}")
    for t in _inputs(node):
        need(t.shape == x.shape, node, f"{t} must have the shape of {x}")
        if x.type == "INT8" and (t.scale, t.zero) != (x.scale, x.zero):
            raise unsupported(node, f"{t} and {x} must be quantised alike: requantise them")
    if x.type == "INT8":
        check_total(node, x, len(node.inputs))
    return [x.shape]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    x = node.input(0)
    if x.type == "INT8":
        steps = sum(np.asarray(q, np.int64) - x.zero for q in inputs)
        return [rescaled(np.asarray(steps), x, node.output)]
    total = np.zeros(x.shape, x.dtype)
    for value in inputs:
        total = total + value
    return [np.asarray(total, x.dtype)]


def lower(node: Node, target: Target) -> Call:
    x, y = node.input(0), node.output
    params: dict[str, Param] = {"size": y.size, "count": len(node.inputs)}
    if x.type == "INT8":
        params["total"] = total_params(x, y)
    inplace = tuple(range(len(node.inputs)))
    return Call(f"tw_add_n_{SUFFIX[x.type]}", params, tuple(_inputs(node)), (y,), inplace=inplace)


def _case(type: str, shape: Shape, count: int, x: tuple[Any, int] = (None, 0), y: tuple[Any, int] = (None, 0)) -> Case:
    inputs = tuple(tensor(shape, type, *x, name=f"x{i}") for i in range(count))
    why = FAULT if x[1] else OVERFLOW if type == "INT8" and count > 16 else ""
    oracle = "none" if why else "litert" if type == "INT32" else "tflm"
    return Case(Node("ADD_N", inputs, (tensor(shape, type, *y, name="y"),)), None, oracle, why)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for shape, count in (((), 2), ((1,), 3), ((7, 33), 2), ((2, 3, 4, 5), 5), ((3, 67), 16)):
        yield _case("FLOAT32", shape, count)
        yield _case("INT32", shape, count)
        for x, y in (((0.5, 0), (0.5, 0)), ((0.01, 0), (0.07, -128)), ((3.0, 0), (0.9, 127)), ((1e-6, 0), (2.0, 3))):
            yield _case("INT8", shape, count, x, y)
    yield _case("INT8", (7, 33), 3, (0.5, 7), (0.7, -3))
    yield _case("INT8", (7, 33), 40, (0.1, -128), (2.7, 127))
    twice = _case("FLOAT32", (5,), 2).node
    again = twice.input(0)
    yield Case(replace(twice, inputs=(again, again, again)))


OP = Op("ADD_N", infer, reference, lower, cases)
