"""DEPTH_TO_SPACE and SPACE_TO_DEPTH: channels become blocks of pixels, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need
from twinfer.runtime.ops.move._move import case, example, mover, slice_call, steps
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

#: Swaps the axes "col" and "row in block" of [batch, row, col, row in block, col in block, depth].
_ORDER = (0, 1, 3, 2, 4, 5)


def _split(node: Node, shape: Shape) -> Shape:
    """``shape`` with blocks as axes of their own: [batch, rows, cols, block, block, depth]."""
    block = int(node.options["block_size"])
    n, h, w, c = shape
    if node.op == "SPACE_TO_DEPTH":
        return (n, h // block, w // block, block, block, c)
    return (n, h, w, block, block, c // block**2)


def infer(node: Node) -> list[Shape]:
    x, block = mover(node, 1), int(node.options["block_size"])
    need(len(x.shape) == 4, node, f"{x} must have four dimensions")
    need(block >= 1, node, f"block_size {block} must be positive")
    n, h, w, c = x.shape
    if node.op == "SPACE_TO_DEPTH":
        need(h % block == 0 == w % block, node, f"rows and columns of {x} cannot be cut into blocks of {block}")
        return [(n, h // block, w // block, c * block**2)]
    need(c % block**2 == 0, node, f"the channels of {x} do not make blocks of {block} by {block}")
    return [(n, h * block, w * block, c // block**2)]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    x = inputs[0]
    n, h, w, b, _, c = _split(node, x.shape)
    shape = (n, h, b, w, b, c) if node.op == "SPACE_TO_DEPTH" else (n, h, w, b, b, c)
    return [np.ascontiguousarray(x.reshape(shape).transpose(_ORDER)).reshape(node.output.shape)]


def lower(node: Node, target: Target) -> Call:
    x = node.input(0)
    n, h, w, b, _, c = _split(node, x.shape)
    shape = (n, h, b, w, b, c) if node.op == "SPACE_TO_DEPTH" else (n, h, w, b, b, c)
    walk = list(zip(shape, steps(shape, x.dtype.itemsize), strict=True))
    return slice_call(node, 0, [walk[i] for i in _ORDER])


def cases(op: str, rng: np.random.Generator) -> Iterator[Case]:
    for deep, block in (
        ((1, 1, 1, 4), 2), ((2, 3, 5, 12), 2), ((1, 4, 2, 27), 3), ((2, 2, 3, 5), 1), ((1, 3, 2, 64), 4),
    ):  # fmt: skip
        n, h, w, c = deep
        flat = (n, h * block, w * block, c // block**2)
        shapes = (flat, deep) if op == "SPACE_TO_DEPTH" else (deep, flat)
        for type, oracle in (("INT8", "tflm"), ("FLOAT32", "tflm"), ("INT32", "litert")):
            yield case(op, (example(type, shapes[0]),), [shapes[1]], oracle, block_size=block)


OPS = (
    Op("DEPTH_TO_SPACE", infer, reference, lower, lambda rng: cases("DEPTH_TO_SPACE", rng), uint8="moves"),
    Op("SPACE_TO_DEPTH", infer, reference, lower, lambda rng: cases("SPACE_TO_DEPTH", rng), uint8="moves"),
)
