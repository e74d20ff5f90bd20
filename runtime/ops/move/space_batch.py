"""SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND: pixels of blocks become pictures of a batch, and back.

Source of the rules: LiteRT kernels/space_to_batch_nd.cc and batch_to_space_nd.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from twinfer.runtime.constant import Constant, Role
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need
from twinfer.runtime.ops.move._move import case, copy_call, example, index, indices, mover
from twinfer.runtime.ops.move.pad import zero_of
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


class Blocks(NamedTuple):
    """The extents of a block, and what surrounds the space: (before, after) along each of its axes."""

    block: Shape
    around: tuple[tuple[int, int], ...]

    @property
    def pixels(self) -> int:
        """Pixels of a block."""
        return int(np.prod(self.block))


def blocks(node: Node) -> Blocks:
    """Inputs 1 and 2, checked: they must be constants for one axis (of three dimensions) or two (of four)."""
    x = node.input(0)
    need(len(x.shape) in (3, 4), node, f"{x} must have three or four dimensions")
    axes = len(x.shape) - 2
    block, flat = indices(node, 1, axes), indices(node, 2, 2 * axes)
    need(node.input(1).shape == (axes,), node, f"{node.input(1)} must be [{axes}]")
    need(node.input(2).shape == (axes, 2), node, f"{node.input(2)} must be [{axes}, 2]")
    need(all(b >= 1 for b in block), node, f"blocks of {block} must be positive")
    need(min(flat) >= 0, node, f"{node.input(2)} must not be negative")
    return Blocks(tuple(block), tuple(zip(flat[::2], flat[1::2], strict=True)))


def infer(node: Node) -> list[Shape]:
    mover(node, 3, alike=True)
    b = blocks(node)
    return [_to_batch(node, b) if node.op == "SPACE_TO_BATCH_ND" else _to_space(node, b)]


def _to_batch(node: Node, b: Blocks) -> Shape:
    n, *space, depth = node.input(0).shape
    zero_of(node)
    padded = [before + extent + after for extent, (before, after) in zip(space, b.around, strict=True)]
    whole = all(extent % block == 0 for extent, block in zip(padded, b.block, strict=True))
    need(whole, node, f"{node.input(0)} padded to {padded} cannot be cut into blocks of {list(b.block)}")
    return (n * b.pixels, *(extent // block for extent, block in zip(padded, b.block, strict=True)), depth)


def _to_space(node: Node, b: Blocks) -> Shape:
    n, *space, depth = node.input(0).shape
    need(n % b.pixels == 0, node, f"the batch of {node.input(0)} does not make blocks of {list(b.block)}")
    full = [extent * block for extent, block in zip(space, b.block, strict=True)]
    cropped = [extent - sum(ends) for extent, ends in zip(full, b.around, strict=True)]
    need(min(cropped) >= 0, node, f"crops {list(b.around)} are larger than {full}")
    return (n // b.pixels, *cropped, depth)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    b, x = blocks(node), inputs[0]
    axes = len(b.block)
    if node.op == "SPACE_TO_BATCH_ND":
        padded = np.pad(x, ((0, 0), *b.around, (0, 0)), constant_values=zero_of(node)[0])
        cut = [part for i, block in enumerate(b.block) for part in (padded.shape[1 + i] // block, block)]
        split = padded.reshape(x.shape[0], *cut, x.shape[-1])
        order = (*range(2, 2 + 2 * axes, 2), 0, *range(1, 1 + 2 * axes, 2), 1 + 2 * axes)
        return [np.ascontiguousarray(split.transpose(order)).reshape(node.output.shape)]
    n, *space, depth = x.shape
    split = x.reshape(*b.block, n // b.pixels, *space, depth)
    order = (axes, *(d for i in range(axes) for d in (axes + 1 + i, i)), 2 * axes + 1)
    full = [extent * block for extent, block in zip(space, b.block, strict=True)]
    whole = split.transpose(order).reshape(n // b.pixels, *full, depth)
    box = [slice(before, extent - after) for extent, (before, after) in zip(full, b.around, strict=True)]
    return [np.ascontiguousarray(whole[(slice(None), *box)])]


def lower(node: Node, target: Target) -> Call:
    x, y = node.input(0), node.output
    if not y.size:
        return copy_call(node)
    to_batch, b = node.op == "SPACE_TO_BATCH_ND", blocks(node)
    space, batch = (x.shape, y.shape) if to_batch else (y.shape, x.shape)
    columns = (1,) * (4 - len(x.shape))  # one axis alone is a column of pixels
    (height, width), (rows, cols) = ((*shape[1:-1], *columns) for shape in (space, batch))
    block_h, block_w = (*b.block, *columns)
    (top, _), (left, _) = (*b.around, *[(0, 0)] * len(columns))
    shape = {
        "batches": space[0], "height": height, "width": width, "rows": rows, "cols": cols,
        "block_h": block_h, "block_w": block_w, "top": top, "left": left, "size": x.shape[-1] * x.dtype.itemsize,
    }  # fmt: skip
    if not to_batch:
        return Call("tw_batch_to_space", {"shape": shape}, (x,), (y,))
    padding = Constant(zero_of(node), Role.INDEX, name="padding")
    return Call("tw_space_to_batch", {"shape": shape, "element": x.dtype.itemsize}, (x, padding), (y,))


def _case(op: str, type: str, shape: Shape, block: Shape, around: tuple[int, ...], oracle: str) -> Case:
    x = example(type, shape)
    inputs = (x, index(block), index(around, shape=(len(block), 2)))
    blank = case(op, inputs, [()], oracle).node
    return case(op, inputs, infer(blank), oracle)


_TO_BATCH: tuple[tuple[Shape, Shape, tuple[int, ...]], ...] = (
    ((1, 4, 6, 3), (2, 2), (0, 0, 0, 0)), ((2, 5, 7, 1), (2, 3), (1, 0, 1, 1)), ((1, 3, 3, 5), (2, 2), (3, 2, 0, 5)),
    ((2, 1, 4, 2), (1, 4), (0, 0, 4, 0)), ((1, 1, 1, 1), (3, 2), (1, 1, 0, 1)), ((1, 2, 2, 64), (1, 1), (1, 0, 0, 1)),
)  # fmt: skip
_TO_SPACE: tuple[tuple[Shape, Shape, tuple[int, ...]], ...] = (
    ((4, 2, 3, 3), (2, 2), (0, 0, 0, 0)), ((12, 3, 2, 1), (2, 3), (1, 0, 2, 1)), ((4, 3, 3, 5), (2, 2), (3, 2, 0, 5)),
    ((8, 1, 2, 2), (1, 4), (0, 0, 5, 0)), ((6, 1, 1, 1), (3, 2), (1, 1, 0, 1)), ((2, 2, 3, 64), (1, 1), (1, 0, 0, 1)),
)  # fmt: skip


def cases(op: str, rng: np.random.Generator) -> Iterator[Case]:
    to_batch = op == "SPACE_TO_BATCH_ND"
    for form in _TO_BATCH if to_batch else _TO_SPACE:
        oracle = "litert" if to_batch and any(form[2]) else "tflm"  # TFLM pads with memory that it never sets
        yield _case(op, "INT8", *form, oracle)
        yield _case(op, "FLOAT32", *form, oracle)
    three = ((2, 7, 3), (3,), (1, 1)) if to_batch else ((6, 3, 5), (3,), (2, 1))
    for type in ("INT8", "FLOAT32", "INT32", "INT64", "UINT8"):
        in_tflm = type in ("INT8", "FLOAT32") and not to_batch
        yield _case(op, type, *three, "tflm" if in_tflm else "litert")
    yield _case(op, "INT16", *(_TO_BATCH if to_batch else _TO_SPACE)[1], "litert")


OPS = (
    Op("SPACE_TO_BATCH_ND", infer, reference, lower, lambda rng: cases("SPACE_TO_BATCH_ND", rng), uint8="moves"),
    Op("BATCH_TO_SPACE_ND", infer, reference, lower, lambda rng: cases("BATCH_TO_SPACE_ND", rng), uint8="moves"),
)
