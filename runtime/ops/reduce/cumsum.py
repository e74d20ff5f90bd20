"""CUMSUM: sums of all elements before each along an axis. Source of the rules: TFLM and LiteRT kernels/cumsum.cc."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import SUFFIX, Case, Op, Shape, need, need_type, tensor
from twinfer.runtime.ops.core.axis import one_axis
from twinfer.runtime.ops.core.total import FAULT, OVERFLOW, check_total, rescaled, total_params
from twinfer.runtime.ops.move._move import axis_in, check_arity, index, indices
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def _axis(node: Node) -> int:
    return axis_in(node, indices(node, 1, 1)[0], len(node.input(0).shape))


def infer(node: Node) -> list[Shape]:
    check_arity(node, 2)
    x, y = node.input(0), node.output
    need_type(node, x, "FLOAT32", "INT32", "INT64", "INT8")
    need(y.type == x.type, node, f"{x} and {y} differ in type")
    axis = _axis(node)
    if x.type == "INT8":
        check_total(node, x, x.shape[axis])
    return [x.shape]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    x, axis = node.input(0), _axis(node)
    values = inputs[0].astype(np.int64) - x.zero if x.type == "INT8" else inputs[0]
    values = np.flip(values, axis) if node.options.get("reverse") else values
    with np.errstate(over="ignore"):
        nothing = np.zeros_like(values, shape=(*x.shape[:axis], 1, *x.shape[axis + 1 :]))
        sums = np.cumsum(np.concatenate([nothing, values], axis), axis, dtype=values.dtype)
    sums = np.delete(sums, -1 if node.options.get("exclusive") else 0, axis)
    sums = np.flip(sums, axis) if node.options.get("reverse") else sums
    return [rescaled(sums, x, node.output) if x.type == "INT8" else np.ascontiguousarray(sums)]


def lower(node: Node, target: Target) -> Call:
    x, y = node.input(0), node.output
    params: dict[str, Param] = {
        "axis": one_axis(x.shape, _axis(node)),
        "reverse": int(bool(node.options.get("reverse"))),
        "exclusive": int(bool(node.options.get("exclusive"))),
    }
    if x.type == "INT8":
        params["total"] = total_params(x, y)
    return Call(f"tw_cumsum_{SUFFIX[x.type]}", params, (x,), (y,), inplace=(0,))


def _case(type: str, shape: Shape, axis: int, how: int, zero: int = 0) -> Case:
    quants = ((0.3, zero), (0.9, -5)) if type == "INT8" else ((None, 0), (None, 0))
    x, y = (tensor(shape, type, *quant, name=name) for quant, name in zip(quants, "xy", strict=True))
    options = {"reverse": bool(how & 1), "exclusive": bool(how & 2)}
    why = FAULT if zero else OVERFLOW if type == "INT8" and shape[axis] > 16 else ""
    oracle = "none" if why else "tflm" if type in ("FLOAT32", "INT8") else "litert"
    return Case(Node("CUMSUM", (x, index([axis])), (y,), options), None, oracle, why)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    forms: tuple[tuple[Shape, int], ...] = (((7,), 0), ((3, 5), -1), ((6, 4), 0), ((2, 3, 4, 5), 1), ((2, 1, 3), 1))
    for i, (shape, axis) in enumerate(forms):
        for how in range(4):
            yield _case("FLOAT32", shape, axis, how)
            yield _case("INT8", shape, axis, how)
            yield _case(("INT32", "INT64")[i % 2], shape, axis, how)
    yield _case("INT8", (3, 5), 1, 0, zero=9)
    yield _case("INT8", (2, 300), 1, 3)


OP = Op("CUMSUM", infer, reference, lower, cases)
