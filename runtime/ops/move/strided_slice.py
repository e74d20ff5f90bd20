"""STRIDED_SLICE: numpy's basic indexing.

Source of the rules: TensorFlow's strided_slice, LiteRT kernels/strided_slice.cc. TFLM's kernel knows neither ellipsis
nor new axes nor the offset flag; LiteRT's reads what it never wrote where the flag meets fewer indices than axes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need
from twinfer.runtime.ops.move._move import (
    Axis,
    case,
    check_arity,
    check_moved,
    example,
    index,
    indices,
    slice_call,
    steps,
)
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


@dataclass(frozen=True)
class Cut:
    """The part of one input axis: ``count`` elements from ``start`` on; ``kept`` axes appear in the output."""

    start: int
    count: int
    stride: int = 1
    kept: bool = True


#: A new axis of extent 1, for which the input has none.
NEW = None


def _mask(node: Node, name: str) -> set[int]:
    bits = int(node.options.get(f"{name}_mask", 0))
    return {i for i in range(32) if bits >> i & 1}


def cut(n: int, begin: int | None, end: int | None, stride: int, offset: bool) -> Cut:
    """The range of an axis of extent ``n``, clamped; None: from or to the end. ``offset``: end counts from begin."""
    low, high = (0, n) if stride > 0 else (-1, n - 1)
    first, last = (low, high) if stride > 0 else (high, low)
    start = first if begin is None else min(max(begin + (n if begin < 0 else 0), low), high)
    if end is None:
        stop = last
    else:
        end += start if offset else 0
        stop = min(max(end + (n if end < 0 else 0), low), high)
    return Cut(start, max(0, -((start - stop) // stride)), stride)


def _pick(node: Node, n: int, begin: int | None) -> Cut:
    """The one element that a shrunk axis leaves."""
    start = cut(n, begin, None, 1, False).start
    need(start < n, node, f"index {begin} is outside an axis of extent {n}")
    return Cut(start, 1, kept=False)


def cuts(node: Node) -> list[Cut | None]:
    """What becomes of every axis of the output and of those that are shrunk away, in order."""
    x, begin = node.input(0), indices(node, 1)
    end, stride = indices(node, 2, len(begin)), indices(node, 3, len(begin))
    from_first, to_last, shrink = _mask(node, "begin"), _mask(node, "end"), _mask(node, "shrink_axis")
    ellipsis = _mask(node, "ellipsis") & set(range(len(begin)))
    new = _mask(node, "new_axis") - ellipsis
    need(len(ellipsis) <= 1, node, "more than one ellipsis")
    left = list(x.shape)
    taken: list[Cut | None] = []
    for i in range(len(begin)):
        if i in ellipsis:
            while len(left) > sum(j not in new for j in range(i + 1, len(begin))):
                taken.append(Cut(0, left.pop(0)))
        elif i in new:
            taken.append(NEW)
        else:
            need(bool(left) and stride[i] != 0, node, f"index {i}: stride {stride[i]}, axes left of {x}: {left}")
            need(i not in shrink or stride[i] > 0, node, f"index {i}: stride {stride[i]} cannot pick a single element")
            n, at = left.pop(0), None if i in from_first else begin[i]
            upto = None if i in to_last else end[i]
            whole = cut(n, at, upto, stride[i], bool(node.options.get("offset", False)))
            taken.append(_pick(node, n, at) if i in shrink else whole)
    return taken + [Cut(0, n) for n in left]


def infer(node: Node) -> list[Shape]:
    check_arity(node, 4)
    check_moved(node, node.input(0))
    for i in (1, 2, 3):
        need(len(node.input(i).shape) == 1, node, f"input {i} ({node.input(i)}) must have one dimension")
    return [tuple(1 if c is NEW else c.count for c in cuts(node) if c is NEW or c.kept)]


def _extent(node: Node, i: int) -> int:
    """Extent of the input axis that index ``i`` is for; behind an ellipsis, axes count from the back."""
    new = _mask(node, "new_axis")
    behind = any(j < i for j in _mask(node, "ellipsis"))
    if behind:
        return node.input(0).shape[-sum(j not in new for j in range(i, node.input(1).size))]
    return node.input(0).shape[sum(j not in new for j in range(i))]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """The same through numpy's own indexing."""
    x, begin, end, stride = inputs
    return [np.array(x[tuple(_key(node, i, begin[i], end[i], stride[i]) for i in range(begin.size))])]


def _key(node: Node, i: int, begin: int, end: int, stride: int) -> Any:
    """What numpy takes as index ``i``."""
    first = None if i in _mask(node, "begin") else int(begin)
    last = None if i in _mask(node, "end") else int(end)
    if i in _mask(node, "ellipsis"):
        return Ellipsis
    if i in _mask(node, "new_axis"):
        return np.newaxis
    if i in _mask(node, "shrink_axis"):
        return slice(first, None).indices(_extent(node, i))[0]
    if node.options["offset"] and last is not None:
        last += slice(first, None, stride).indices(_extent(node, i))[0]
    return slice(first, last, stride)


def lower(node: Node, target: Target) -> Call:
    x = node.input(0)
    taken = [c for c in cuts(node) if c is not NEW]
    step = steps(x.shape, x.dtype.itemsize)
    axes: list[Axis] = [(c.count, c.stride * s) for c, s in zip(taken, step, strict=True)]
    return slice_call(node, sum(c.start * s for c, s in zip(taken, step, strict=True)), axes)


def _case(shape: Shape, spec: tuple[Any, ...], oracle: str = "tflm", type: str = "INT8", **more: int) -> Case:
    """A case from begin, end, strides; ``more`` gives masks (begin=1 for begin_mask) and offset."""
    masks = {f"{name}_mask": more.get(name, 0) for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    options = {**masks, "offset": bool(more.get("offset", 0))}
    inputs = (example(type, shape), *(index(part) for part in spec))
    blank = case("STRIDED_SLICE", inputs, [()], oracle, **options)
    return case("STRIDED_SLICE", inputs, infer(blank.node), oracle, **options)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for type in ("INT8", "INT16", "INT32", "FLOAT32", "BOOL"):
        yield _case((4, 6, 5), ((0, 1, 4), (4, 6, 0), (2, 1, -2)), type=type)
    yield _case((9,), ((-2,), (-8,), (-1,)))
    yield _case((9,), ((20,), (-20,), (-4,)))
    yield _case((9,), ((0,), (0,), (-1,)), begin=1, end=1)
    yield _case((9,), ((3,), (4,), (1,)), shrink_axis=1)
    yield _case((4, 6), ((-1, 1), (0, 6), (1, 2)), shrink_axis=1)
    yield _case((4, 6), ((1, 2), (4, 4), (1, 1)), begin=3, end=1)
    yield _case((4, 6), ((0, 0), (4, 6), (1, 1)))
    yield _case((2, 5, 4, 3), ((0, -2, 0, 0), (0, 0, 0, 3), (1, 1, 1, 1)), begin=13, end=15)
    yield _case((2, 5, 4, 3), ((1, 4, 0, 2), (2, 0, 4, -9), (1, -3, 2, -1)))
    yield _case((2, 5, 4, 3), ((1, 2, 0, 0), (0, 0, 9, 9), (1, 1, 1, 1)), shrink_axis=3)
    yield _case((1, 5, 7, 3), ((0, 0, 0, 1), (1, 9, 9, 2), (1, 2, 2, 1)), shrink_axis=9)
    yield _case((4, 6), ((1,), (3,), (1,)), "litert")
    yield _case((3, 4, 5), ((0, 2), (0, 4), (1, 2)), "litert", ellipsis=1)
    yield _case((3, 4, 5), ((1, 0, 2), (2, 0, 3), (1, 1, 1)), "litert", ellipsis=2, shrink_axis=5)
    yield _case((3, 4), ((0, 1, 0), (3, 2, 4), (1, 1, 2)), "litert", new_axis=2)
    yield _case((3, 4), ((0, 0, 1), (0, 0, 3), (1, 1, 1)), "litert", new_axis=1, ellipsis=2)
    empty = _case((4, 9), ((0, 1, 0), (0, 3, 9), (1, 1, 2)), "none", ellipsis=1)
    yield replace(empty, why="an ellipsis for no axis at all: in LiteRT it takes one, in TensorFlow and numpy none")
    yield _case((2, 3, 4, 5, 2), ((0, 2, 1, 0, 1), (2, 0, 3, 5, 2), (1, -1, 1, 2, 1)), "litert")
    yield _case((8, 6), ((1, -3), (4, 2), (1, 1)), "litert", offset=1)
    yield _case((8, 6), ((1, 2), (4, 5), (2, 1)), "litert", "UINT8")
    yield _case((8, 6), ((1, 2), (4, 5), (2, 1)), "litert", "INT64")


OP = Op("STRIDED_SLICE", infer, reference, lower, cases)
