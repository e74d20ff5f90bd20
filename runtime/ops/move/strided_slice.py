"""STRIDED_SLICE: numpy's basic indexing.

Source of the rules: TensorFlow's strided_slice, LiteRT kernels/strided_slice.cc. TFLM's kernel knows neither ellipsis
nor new axes nor the offset flag; LiteRT's reads what it never wrote where the flag meets fewer indices than axes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need
from twinfer.runtime.ops.move._move import case, example, index, indices, mover
from twinfer.runtime.ops.move._moving import Cut, box_call, check_numbers, declared, fixed, moved, picked
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

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
    x, count = node.input(0), node.input(1).size
    ellipsis = _mask(node, "ellipsis") & set(range(count))
    new = _mask(node, "new_axis") - ellipsis
    need(len(ellipsis) <= 1, node, "more than one ellipsis")
    left = list(x.shape)
    taken: list[Cut | None] = []
    for i in range(count):
        if i in ellipsis:
            while len(left) > sum(j not in new for j in range(i + 1, count)):
                taken.append(Cut(0, left.pop(0)))
        elif i in new:
            taken.append(NEW)
        else:
            need(bool(left), node, f"index {i}: no axis of {x} is left for it")
            taken.append(_part(node, i, left.pop(0), taken))
    return taken + [Cut(0, n) for n in left]


def _part(node: Node, i: int, n: int, before: list[Cut | None]) -> Cut:
    """The part of an axis of extent ``n`` that index ``i`` takes."""
    begin = _known(node, 1)
    if i in _mask(node, "begin"):
        return _taken(node, i, n, None, before)
    return _moved(node, i, n, before) if begin is None else _taken(node, i, n, begin[i], before)


def _known(node: Node, i: int) -> list[int] | None:
    """The numbers of input ``i``, None if they are computed at run time."""
    return None if node.input(i).data is None else indices(node, i)


def _stride(node: Node, i: int) -> int:
    stride = indices(node, 3)[i]
    need(stride != 0, node, f"index {i}: stride 0 leads nowhere")
    picks = i in _mask(node, "shrink_axis")
    need(stride > 0 or not picks, node, f"index {i}: stride {stride} cannot pick a single element")
    return stride


def _taken(node: Node, i: int, n: int, at: int | None, before: list[Cut | None]) -> Cut:
    """The part of an axis whose begin is known; its extent is the output's where the end is computed at run time."""
    stride, end = _stride(node, i), _known(node, 2)
    if i in _mask(node, "shrink_axis"):
        return _pick(node, n, at)
    if end is None and i not in _mask(node, "end"):
        return fixed(node, replace(cut(n, at, None, stride, False), count=_said(node, before)), n)
    upto = None if end is None or i in _mask(node, "end") else end[i]
    return cut(n, at, upto, stride, bool(node.options.get("offset", False)))


def _moved(node: Node, i: int, n: int, before: list[Cut | None]) -> Cut:
    """The part of an axis whose begin is computed at run time; its extent is the output's."""
    kept = i not in _mask(node, "shrink_axis")
    stride = _stride(node, i)
    blank = Cut(0, _said(node, before), stride, extent=n) if kept else Cut(0, 1, kept=False, extent=n)
    return moved(node, blank, n, i)


def _said(node: Node, before: list[Cut | None]) -> int:
    """The extent that the output says for the axis behind ``before``."""
    return declared(node, sum(c is NEW or c.kept for c in before))


def infer(node: Node) -> list[Shape]:
    mover(node, 4)
    check_numbers(node, 1, 2, 3)
    count = node.input(1).size
    for t in (node.input(2), node.input(3)):
        need(t.size == count, node, f"{t} must have {count} elements")
    return [tuple(1 if c is NEW else c.count for c in cuts(node) if c is NEW or c.kept)]


def _extent(node: Node, i: int) -> int:
    """Extent of the input axis that index ``i`` is for; behind an ellipsis, axes count from the back."""
    new = _mask(node, "new_axis")
    behind = any(j < i for j in _mask(node, "ellipsis"))
    if behind:
        return node.input(0).shape[-sum(j not in new for j in range(i, node.input(1).size))]
    return node.input(0).shape[sum(j not in new for j in range(i))]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """The same through numpy's own indexing; what is computed at run time only moves a box, which is kept inside."""
    x, begin, end, stride = inputs
    if node.input(1).data is None or node.input(2).data is None:
        return [picked(x, [c for c in cuts(node) if c is not NEW], begin, node.output.shape)]
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
    return box_call(node, [c for c in cuts(node) if c is not NEW], node.input(1))


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
    yield from _run_time_cases()
    stray = _case((3, 4), ((1,), (3,), (1,)), "none", new_axis=6)
    yield replace(stray, why="new axes beyond the indices count in LiteRT")
    far = _case((8, 6), ((1, -3), (9, 2), (1, 1)), "none", offset=1)
    yield replace(far, why="LiteRT brings no end inside that counts from begin, and reads beyond")


def _fed(shape: Shape, spec: tuple[Any, ...], fed: tuple[int, ...], type: str = "INT8", **more: int) -> Case:
    """A case whose begin (1), end (2) or both are inputs of the model."""
    known = _case(shape, spec, "litert", type, **more)
    inputs = [replace(t, data=None, name=f"in{i}") if t and i in fed else t for i, t in enumerate(known.node.inputs)]
    x = known.node.input(0)
    values = np.random.default_rng(len(shape)).integers(0 if type == "BOOL" else -99, 99, shape).astype(x.dtype)
    node = replace(known.node, inputs=tuple(inputs))
    return replace(known, node=node, inputs=(values, *(np.array(spec[i - 1], np.int32) for i in fed)))


def _run_time_cases() -> Iterator[Case]:
    for i, type in enumerate(("INT8", "FLOAT32", "INT16", "INT32", "BOOL", "INT64")):
        fed = ((1,), (2,), (1, 2))[i % 3]
        yield _fed((9,), ((3,), (4,), (1,)), (1, 2), type, shrink_axis=1)
        yield _fed((4, 6), ((-1, 1), (0, 6), (1, 2)), fed, type, shrink_axis=1)
        yield _fed((4, 6), ((1, 2), (4, 4), (1, 1)), fed, type)
        yield _fed((2, 5, 4, 3), ((0, -2, 0, 0), (0, 0, 0, 3), (1, 1, 1, 1)), fed, type, begin=13, end=15)
        yield _fed((2, 5, 4, 3), ((1, 4, 0, 2), (2, 0, 4, -9), (1, -3, 2, -1)), fed, type)
    yield _fed((3, 4, 5), ((1, 0, 2), (2, 0, 3), (1, 1, 1)), (1,), ellipsis=2, shrink_axis=5)
    yield _fed((3, 4), ((2, 0, 1), (3, 2, 4), (1, 1, 2)), (1, 2), new_axis=2)
    yield _fed((8, 6), ((1, -3), (4, 2), (1, 1)), (1,), offset=1)
    for far in ((-9, 5), (4, -7), (2**31 - 1, -(2**31))):
        outside = _fed((4, 6), ((1, 4), (2, 1), (1, -2)), (1,), shrink_axis=1)
        values = outside.inputs or ()
        why = "LiteRT's output would have another shape, or it refuses"
        yield Case(outside.node, (values[0], np.array(far, np.int32)), "none", why)


OP = Op("STRIDED_SLICE", infer, reference, lower, cases, uint8="moves")
