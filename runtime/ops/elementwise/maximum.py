"""MAXIMUM and MINIMUM of the stored values, with broadcasting; int8 is not rescaled, as in TFLM and LiteRT."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import SUFFIX, Case, Op, Shape
from twinfer.runtime.ops.core.broadcast import SHAPES, binary_case, broadcast_call, infer_binary
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def infer(node: Node) -> list[Shape]:
    """Of uint8 without scales; with them it runs as int8."""
    return infer_binary(node, "INT8", "INT16", "FLOAT32", "INT32", "INT64", "UINT8")


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Source: TFLM MaximumOp and MinimumOp: the first operand only where it is strictly more (less)."""
    a, b = inputs
    return [np.where(a > b if node.op == "MAXIMUM" else a < b, a, b)]


def lower(node: Node, target: Target) -> Call:
    operands, y = (node.input(0), node.input(1)), node.output
    return broadcast_call(f"tw_maximum_{SUFFIX[y.type]}", operands, y, {"minimum": int(node.op == "MINIMUM")}, target)


def cases(op: str, rng: np.random.Generator) -> Iterator[Case]:
    for a, b in SHAPES:
        yield binary_case(op, "INT8", (a, b), (0.5, 3, 0.5, 3, 0.5, 3))
        yield binary_case(op, "FLOAT32", (a, b))
    for a, b in SHAPES[::2]:
        yield binary_case(op, "INT16", (a, b), (0.5, 0, 0.5, 0, 0.5, 0))
    for type in ("INT32", "INT64"):
        for a, b in SHAPES[::3]:
            yield binary_case(op, type, (a, b))
    odd = np.array([np.nan, 1, -0.0, 0.0, np.inf, -np.inf, 2], np.float32)
    yield binary_case(op, "FLOAT32", ((7,), (7,)), values=(odd, odd[[1, 0, 3, 2, 5, 4, 6]]))
    for a, b in SHAPES[::3]:
        yield binary_case(op, "UINT8", (a, b), oracle="litert")


OPS = (
    Op("MAXIMUM", infer, reference, lower, lambda rng: cases("MAXIMUM", rng), pointwise="exact", uint8="computes"),
    Op("MINIMUM", infer, reference, lower, lambda rng: cases("MINIMUM", rng), pointwise="exact", uint8="computes"),
)
