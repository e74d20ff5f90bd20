"""UNSORTED_SEGMENT_SUM, _PROD, _MAX and _MIN: slices with one number put together.

Source of the rules: LiteRT kernels/unsorted_segment.cc.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import SUFFIX, Case, Op, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.ops.move._move import check_arity, index, indices
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

#: The operators; the position is what the kernel calls them.
KINDS = ("UNSORTED_SEGMENT_SUM", "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN")


def infer(node: Node) -> list[Shape]:
    check_arity(node, 3)
    x, at, count = node.input(0), node.input(1), node.input(2)
    need_type(node, x, "FLOAT32", "INT32")
    need_type(node, at, "INT32")
    need(node.output.type == x.type, node, f"{x} and {node.output} differ in type")
    need(len(x.shape) >= 1 and at.shape == x.shape[:1], node, f"{at} must have a number for every slice of {x}")
    if count.data is None:
        raise unsupported(node, f"{count} is computed at run time: make it a constant")
    (segments,) = indices(node, 2, 1)
    need(segments >= 0, node, f"{segments} segments are too few")
    if at.data is not None:
        need(int(at.data.max(initial=-1)) < segments, node, f"{at} has numbers that are not below {segments}")
    return [(segments, *x.shape[1:])]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Slices of other segments are left out; LiteRT refuses numbers that are too great at run time."""
    x, at, _ = inputs
    kind = KINDS.index(node.op)
    info = np.finfo(x.dtype) if x.dtype.kind == "f" else np.iinfo(x.dtype)
    y = np.full(node.output.shape, (0, 1, info.min, info.max)[kind], x.dtype)
    with np.errstate(all="ignore"):
        for number, b in zip(at.tolist(), x, strict=True):
            if 0 <= number < len(y):
                a = y[number]
                y[number] = (a + b, a * b, np.where(a < b, b, a), np.where(b < a, b, a))[kind]
    return [y]


def lower(node: Node, target: Target) -> Call:
    x, at, y = node.input(0), node.input(1), node.output
    params: dict[str, Param] = {
        "count": at.size, "run": math.prod(x.shape[1:]), "segments": y.shape[0], "kind": KINDS.index(node.op),
    }  # fmt: skip
    return Call(f"tw_unsorted_segment_{SUFFIX[x.type]}", params, (x, at), (y,))


def cases(op: str, rng: np.random.Generator) -> Iterator[Case]:
    for shape, segments in (((5,), 3), ((1,), 1), ((6, 4), 3), ((9, 2, 3), 12)):
        for type in ("FLOAT32", "INT32"):
            x, y = tensor(shape, type), tensor((segments, *shape[1:]), type, name="y")
            at = tensor(shape[:1], "INT32", name="at")
            numbers = rng.integers(-1, segments, shape[0]).astype(np.int32)
            values = rng.integers(-99, 99, shape).astype(x.dtype)
            yield Case(Node(op, (x, at, index([segments], shape=())), (y,)), (values, numbers), "litert")
            given = index(np.maximum(numbers, 0).tolist())
            yield Case(Node(op, (x, given, index([segments])), (y,)), None, "litert")
    why = "LiteRT refuses numbers that are too great when running"
    yield Case(Node(op, (x, at, index([segments])), (y,)), None, "none", why)


OPS = tuple(Op(kind, infer, reference, lower, partial(cases, kind)) for kind in KINDS)
