"""BUCKETIZE: how many of some rising numbers each value has reached. Source: LiteRT kernels/bucketize.cc."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime import constant
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import SUFFIX, Case, Op, Shape, need, need_type, tensor
from twinfer.runtime.ops.move._move import check_arity
from twinfer.runtime.program import Call
from twinfer.runtime.rows import ELEMENTS
from twinfer.runtime.target import Target


def _boundaries(node: Node) -> Array:
    return np.asarray(node.options.get("boundaries") or (), np.float32)


def infer(node: Node) -> list[Shape]:
    check_arity(node, 1)
    need_type(node, node.input(0), "FLOAT32", "INT32", "INT64")
    need_type(node, node.output, "INT32")
    boundaries = _boundaries(node)
    need(bool((np.diff(boundaries) >= 0).all()), node, "its boundaries must rise")
    return [node.input(0).shape]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """A NaN is behind all boundaries."""
    x = inputs[0].astype(np.float32)
    return [np.searchsorted(_boundaries(node), x, "right").astype(np.int32).reshape(x.shape)]


def lower(node: Node, target: Target) -> Call:
    x, boundaries = node.input(0), _boundaries(node)
    params = {"size": x.size, "count": boundaries.size}
    table = constant.table(boundaries if boundaries.size else np.zeros(1, np.float32))
    return Call(f"tw_bucketize_{SUFFIX[x.type]}", params, (x, table), (node.output,), rows=ELEMENTS)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for type in ("FLOAT32", "INT32", "INT64"):
        for boundaries in ((0.0,), (-10.0, -2.5, 0.0, 3.0, 3.0, 50.0)):
            x = tensor((4, 9), type)
            values = rng.integers(-60, 60, (4, 9))
            node = Node("BUCKETIZE", (x,), (tensor((4, 9), "INT32", name="y"),), {"boundaries": boundaries})
            yield Case(node, (values.astype(x.dtype),), "litert")


OP = Op("BUCKETIZE", infer, reference, lower, cases)
