"""SELECT and SELECT_V2: per element a value of one of two tensors; SELECT_V2 broadcasts all three."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.ops.core.broadcast import broadcast_shape
from twinfer.runtime.ops.core.loops import collapse, distances, filled
from twinfer.runtime.ops.move._move import check_arity, check_moved, example, same_meaning
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def _condition(node: Node) -> Shape:
    """The condition's shape as it broadcasts; SELECT also takes one value per index of the first axis."""
    shape, x = node.input(0).shape, node.input(1)
    if node.op == "SELECT" and len(shape) == 1 and len(x.shape) > 1 and shape[0] == x.shape[0]:
        return (*shape, *[1] * (len(x.shape) - 1))
    return shape


def infer(node: Node) -> list[Shape]:
    check_arity(node, 3)
    condition, a, b = node.input(0), node.input(1), node.input(2)
    need_type(node, condition, "BOOL")
    check_moved(node, a, b)
    if not (same_meaning(a, node.output) and same_meaning(b, node.output)):
        raise unsupported(node, f"{a}, {b} and {node.output} must be quantised alike: requantise them")
    if node.op == "SELECT":
        need(a.shape == b.shape, node, f"{a} and {b} differ in shape")
    shape = broadcast_shape(node, (_condition(node), a.shape, b.shape))
    need(node.op != "SELECT" or shape == a.shape, node, f"{condition} does not fit {a}")
    return [shape]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    condition, a, b = inputs
    return [np.asarray(np.where(condition.reshape(_condition(node)), a, b))]


def lower(node: Node, target: Target) -> Call:
    a, b, y = node.input(1), node.input(2), node.output
    dims = collapse(_condition(node), a.shape, b.shape)
    *n, count = (extent for extent, _ in dims)
    params: dict[str, Param] = {"size": y.dtype.itemsize, "count": count, "n": filled(n, 1)}
    for operand, prefix in enumerate(("", "a_", "b_")):
        *steps, step = distances(dims, operand)
        params |= {f"{prefix}step": step, f"{prefix}steps": filled(steps, 0)}
    return Call("tw_select", params, (node.input(0), a, b), (y,))


def _case(op: str, type: str, shapes: tuple[Shape, Shape, Shape], out: Shape, oracle: str) -> Case:
    a, b = (example(type, s) for s in shapes[1:])
    y = Tensor("y", a.type, out, a.quant)
    return Case(Node(op, (tensor(shapes[0], "BOOL", name="c"), a, b), (y,)), oracle=oracle)


def cases(op: str, rng: np.random.Generator) -> Iterator[Case]:
    same: tuple[Shape, ...] = ((7,), (3, 5), (2, 3, 4, 5))
    for shape in same:
        for type in ("INT8", "FLOAT32", "INT32"):
            oracle = "litert" if op == "SELECT" or type == "INT32" else "tflm"
            yield _case(op, type, (shape, shape, shape), shape, oracle)
    if op == "SELECT":
        yield _case(op, "FLOAT32", ((), (3, 5), (3, 5)), (3, 5), "litert")
        yield _case(op, "INT8", ((3,), (3, 5, 2), (3, 5, 2)), (3, 5, 2), "litert")
        return
    for shapes in (
        ((5,), (3, 5), (1,)), ((3, 1), (1, 5), ()), ((), (2, 1, 3), (4, 1)), ((2, 1, 4, 1), (3, 1, 5), (4, 5)),
    ):  # fmt: skip
        out = tuple(np.broadcast_shapes(*shapes))
        yield _case(op, "INT8", shapes, out, "tflm")
        yield _case(op, "INT64", shapes, out, "litert")
        yield _case(op, "INT16", shapes, out, "tflm")
        yield _case(op, "BOOL", shapes, out, "litert")


OPS = (
    Op("SELECT", infer, reference, lower, lambda rng: cases("SELECT", rng), uint8="moves"),
    Op("SELECT_V2", infer, reference, lower, lambda rng: cases("SELECT_V2", rng), uint8="moves"),
)
