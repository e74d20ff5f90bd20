"""TRANSPOSE: axes in another order. Source of the rules: TFLM kernels/transpose.cc, LiteRT kernels/transpose.cc."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need
from twinfer.runtime.ops.move._move import Axis, case, copy_call, example, index, indices, mover, slice_call, steps
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def infer(node: Node) -> list[Shape]:
    x = mover(node, 2)
    order = indices(node, 1, len(x.shape))
    need(sorted(order) == list(range(len(order))), node, f"permutation {order} does not fit {x}")
    return [tuple(x.shape[i] for i in order)]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    x, order = inputs
    return [np.ascontiguousarray(x.transpose(order.reshape(-1)))]


def lower(node: Node, target: Target) -> Call:
    return slice_call(node, 0, walk_of(node)) if node.input(0).size else copy_call(node)


def walk_of(node: Node) -> list[Axis]:
    """Extent of every output axis, and its step in bytes in the input."""
    x = node.input(0)
    step = steps(x.shape, x.dtype.itemsize)
    return [(x.shape[i], step[i]) for i in indices(node, 1)]


def _case(type: str, shape: Shape, order: tuple[int, ...], oracle: str = "tflm") -> Case:
    out = tuple(shape[i] for i in order)
    return case("TRANSPOSE", (example(type, shape), index(order)), [out], oracle)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    forms = (
        ((7,), (0,)), ((5, 3), (1, 0)), ((16, 16), (1, 0)), ((33, 50), (1, 0)), ((1, 9), (1, 0)), ((4, 5), (0, 1)),
        ((3, 4, 5), (2, 1, 0)), ((3, 4, 5), (0, 2, 1)), ((20, 3, 18), (2, 1, 0)), ((2, 17, 19), (0, 2, 1)),
        ((1, 6, 5, 3), (0, 3, 1, 2)), ((2, 3, 5, 6), (0, 2, 3, 1)), ((2, 3, 4, 5), (0, 2, 1, 3)),
        ((2, 1, 4, 1), (1, 0, 3, 2)), ((17, 2, 3, 21), (3, 1, 2, 0)), ((2, 3, 2, 3, 4), (4, 2, 0, 1, 3)),
    )  # fmt: skip
    for shape, order in forms:
        yield _case("INT8", shape, order, "tflm")
    for type in ("INT16", "FLOAT32"):
        yield _case(type, (3, 18, 26), (0, 2, 1))
        yield _case(type, (9, 2, 11), (2, 1, 0))
    for type in ("INT32", "UINT8", "BOOL", "INT64"):
        yield _case(type, (2, 19, 17), (0, 2, 1), "litert")
    yield _case("INT8", (2, 3, 2, 2, 3, 4), (5, 2, 0, 3, 1, 4), "litert")
    yield _case("INT8", (17, 3, 2, 2, 3, 18), (5, 4, 3, 2, 1, 0), "litert")


OP = Op("TRANSPOSE", infer, reference, lower, cases, uint8="moves")
