"""SPARSE_TO_DENSE: one value everywhere, but others at some places. Source: LiteRT kernels/sparse_to_dense.cc."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.ops.core.loops import LOOPS
from twinfer.runtime.ops.move._move import check_arity, check_moved, example, index, indices, same_meaning
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

TYPES = ("FLOAT32", "INT32", "INT64", "INT8", "UINT8")

#: Most dimensions that LiteRT knows.
MOST = 4


def _places(node: Node) -> tuple[int, int]:
    """How many places there are, and the numbers for each."""
    at = node.input(0)
    need(len(at.shape) in (1, 2), node, f"{at} must have one or two dimensions")
    return at.shape[0], at.shape[1] if len(at.shape) == 2 else 1


def infer(node: Node) -> list[Shape]:
    check_arity(node, 4)
    at, values, other = node.input(0), node.input(2), node.input(3)
    need_type(node, at, "INT32", "INT64")
    need_type(node, values, *TYPES)
    check_moved(node, values, other)
    if not (same_meaning(values, node.output) and same_meaning(other, node.output)):
        raise unsupported(node, f"{values}, {other} and {node.output} must be quantised alike: requantise them")
    count, depth = _places(node)
    shape = tuple(indices(node, 1, depth))
    need(
        all(n >= 0 for n in shape) and 1 <= depth <= MOST, node, f"{list(shape)} is not a shape of 1 to {MOST} extents"
    )
    need(values.shape in ((), (count,)), node, f"{values} must be one value, or {count}")
    need(other.size == 1, node, f"{other} must be a single value")
    return [shape]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Of places that are named twice the last counts; those outside are left out (LiteRT writes there)."""
    at, _, values, other = inputs
    count, depth = _places(node)
    y = np.full(node.output.shape, other.reshape(()))
    for place, value in zip(at.reshape(count, depth).tolist(), np.broadcast_to(values, (count,)), strict=True):
        if all(0 <= i < n for i, n in zip(place, y.shape, strict=True)):
            y[tuple(place)] = value
    return [y]


def lower(node: Node, target: Target) -> Call:
    at, values, other, y = node.input(0), node.input(2), node.input(3), node.output
    count, depth = _places(node)
    params: dict[str, Param] = {
        "count": count if y.size else 0, "depth": depth, "wide": at.dtype.itemsize, "step": int(len(values.shape) == 1),
        "element": y.dtype.itemsize, "size": y.nbytes, "n": (*y.shape, *[1] * (LOOPS - depth)),
    }  # fmt: skip
    return Call("tw_sparse_to_dense", params, (at, values, other), (y,))


def cases(rng: np.random.Generator) -> Iterator[Case]:
    forms: tuple[tuple[Shape, Shape, bool], ...] = (
        ((8,), (3,), False), ((8,), (3,), True), ((4, 5), (6, 2), False), ((2, 3, 4), (5, 3), True),
        ((2, 3, 2, 3), (1, 4), False),
    )  # fmt: skip
    for i, (shape, places, same) in enumerate(forms):
        for type in ("FLOAT32", TYPES[i % 5]):
            value, other = example(type, () if same else places[:1]), example(type, ())
            numbers = np.stack([rng.integers(0, n, places[0]) for n in shape], -1).reshape(places)
            at = tensor(places, ("INT32", "INT64")[i % 2], name="at")
            node = Node("SPARSE_TO_DENSE", (at, index(shape), value, other), (Tensor("y", type, shape, value.quant),))
            values = tuple(rng.integers(0, 99, t.shape).astype(t.dtype) for t in (value, other))
            yield Case(node, (numbers.astype(at.dtype), *values), "litert")
    yield Case(node, None, "none", "LiteRT writes outside of the tensor")


OP = Op("SPARSE_TO_DENSE", infer, reference, lower, cases)
