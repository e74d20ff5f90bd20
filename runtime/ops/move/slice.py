"""SLICE and REVERSE_V2: a box out of a tensor, and a tensor read backwards. Source: LiteRT's kernels of these names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need
from twinfer.runtime.ops.move._move import axis_in, case, example, index, indices, mover, slice_call, steps
from twinfer.runtime.ops.move._moving import Cut, box_call, check_numbers, declared, moved, picked
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def _cuts(node: Node) -> list[Cut]:
    """The part of every axis. Where begin or size are computed at run time, its size is the output's."""
    x, begin, sizes = node.input(0), _constant(node, 1), _constant(node, 2)
    if sizes is None:
        need(len(node.output.shape) == len(x.shape), node, f"{node.output} must have as many dimensions as {x}")
    cuts = []
    for i, n in enumerate(x.shape):
        at = None if begin is None else begin[i]
        size = declared(node, i) if sizes is None else sizes[i]
        if at is None:
            cuts.append(moved(node, Cut(0, declared(node, i) if size == -1 else _extent(node, size)), n, i))
        else:
            cuts.append(_inside(node, i, at, n - at if size == -1 else size))
    return cuts


def _constant(node: Node, i: int) -> list[int] | None:
    rank = len(node.input(0).shape)
    need(node.input(i).size == rank, node, f"{node.input(i)} must have {rank} elements")
    return None if node.input(i).data is None else indices(node, i)


def _extent(node: Node, size: int) -> int:
    need(size >= 0, node, f"size {size} is neither an extent nor -1")
    return size


def _inside(node: Node, axis: int, at: int, size: int) -> Cut:
    x = node.input(0)
    fits = at >= 0 <= size and at + size <= x.shape[axis]
    need(fits, node, f"begin {at}, size {size} is not inside axis {axis} of {x}")
    return Cut(at, size)


def infer(node: Node) -> list[Shape]:
    mover(node, 3)
    check_numbers(node, 1, 2)
    return [tuple(c.count for c in _cuts(node))]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """A begin that is computed at run time is brought inside; the references read what lies beyond, or refuse."""
    return [picked(inputs[0], _cuts(node), inputs[1], node.output.shape)]


def lower(node: Node, target: Target) -> Call:
    return box_call(node, _cuts(node), node.input(1))


def _fed(type: str, shape: Shape, begin: Shape, size: Shape, numbers: str, fed: tuple[int, ...]) -> Case:
    """A case whose begin (1), size (2) or both are inputs of the model."""
    x, at, extent = example(type, shape), index(begin, numbers), index(size, numbers)
    out = tuple(n - b if s == -1 else s for n, b, s in zip(shape, begin, size, strict=True))
    values = np.random.default_rng(len(shape)).integers(0 if type == "BOOL" else -99, 99, shape).astype(x.dtype)
    inputs = [replace(t, data=None, name=f"in{i}") if i in fed else t for i, t in enumerate((x, at, extent))]
    node = case("SLICE", inputs, [out], "tflm").node
    return Case(node, (values, *(np.array((begin, size)[i - 1], at.dtype) for i in fed)))


def _run_time_cases() -> Iterator[Case]:
    forms: tuple[tuple[Shape, Shape, Shape], ...] = (
        ((7,), (2,), (4,)), ((7,), (6,), (-1,)), ((4, 6), (3, 1), (1, 4)), ((4, 6), (1, 0), (2, 6)),
        ((4, 6), (0, 0), (4, 6)), ((2, 3, 4, 5), (0, 1, 1, 2), (2, 2, 3, 1)),
        ((2, 3, 4, 5), (1, 0, 0, 0), (1, 3, 2, 5)), ((2, 3, 2, 3, 4), (0, 1, 1, 0, 1), (2, 1, 1, 3, 3)),
    )  # fmt: skip
    for i, form in enumerate(forms):
        for k, type in enumerate(("INT8", "FLOAT32", "INT16", "INT32", "BOOL")):
            yield _fed(type, *form, ("INT32", "INT64")[(i + k) % 2], ((1,), (2,), (1, 2))[(i + k) % 3])
    for far in ((-5, 9), (9, -(2**40)), (2**62, -1)):
        beyond = _fed("INT8", (4, 6), (1, 1), (2, 3), "INT64", (1,))
        values = beyond.inputs or ()
        yield Case(beyond.node, (values[0], np.array(far)), "none", "TFLM reads beyond the tensor, LiteRT refuses")
    other = _fed("INT8", (4, 6), (1, 1), (2, 3), "INT32", (2,))
    x = (other.inputs or ())[0]
    yield Case(other.node, (x, np.array((1, 2), np.int32)), "none", "TFLM writes the shape of the run, LiteRT refuses")


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for type in ("INT8", "INT16", "INT32", "FLOAT32", "BOOL"):
        x = example(type, (3, 4, 5))
        yield case("SLICE", (x, index((1, 0, 2)), index((2, 4, 3))), [(2, 4, 3)])
    forms = (
        ((7,), (2,), (-1,), (5,)), ((7,), (0,), (7,), (7,)), ((4, 6), (3, 1), (1, 4), (1, 4)),
        ((4, 6), (2, 0), (-1, -1), (2, 6)), ((2, 3, 4, 5), (0, 1, 1, 2), (2, 2, 3, 1), (2, 2, 3, 1)),
        ((2, 3, 4, 5), (1, 0, 0, 0), (1, 3, 2, 5), (1, 3, 2, 5)),
        ((2, 3, 2, 3, 4), (0, 1, 1, 0, 1), (2, 1, 1, 3, 3), (2, 1, 1, 3, 3)),
    )  # fmt: skip
    for shape, begin, size, out in forms:
        yield case("SLICE", (example("INT8", shape), index(begin), index(size)), [out])
    for type in ("UINT8", "INT64"):
        inputs = (example(type, (4, 6)), index((1, 2), "INT64"), index((2, -1), "INT64"))
        yield case("SLICE", inputs, [(2, 4)], "litert")
    yield from _run_time_cases()


def _backwards(node: Node) -> list[int]:
    """The axes that are read backwards, counted from the front."""
    axes = [axis_in(node, axis, len(node.input(0).shape)) for axis in indices(node, 1)]
    need(len(set(axes)) == len(axes), node, f"{node.input(1)} names an axis twice")
    return axes


def _infer_reverse(node: Node) -> list[Shape]:
    x = mover(node, 2, alike=True)
    need(len(node.input(1).shape) == 1, node, f"{node.input(1)} must have one dimension")
    _backwards(node)
    return [x.shape]


def _reverse(node: Node, inputs: list[Any]) -> list[Array]:
    return [np.ascontiguousarray(np.flip(inputs[0], tuple(_backwards(node))))]


def _lower_reverse(node: Node, target: Target) -> Call:
    x, axes = node.input(0), _backwards(node)
    walk, start = list(zip(x.shape, steps(x.shape, x.dtype.itemsize), strict=True)), 0
    for axis in axes:
        n, step = walk[axis]
        walk[axis] = (n, -step)
        start += max(n - 1, 0) * step
    return slice_call(node, start, walk)


def _reverse_cases(rng: np.random.Generator) -> Iterator[Case]:
    for shape, axes in (((7,), (0,)), ((4, 6), (1,)), ((4, 6), (-2,)), ((2, 3, 5), (1,)), ((2, 3, 5), (0, 1, 2))):
        for type in ("INT8", "FLOAT32", "INT16", "INT32", "INT64", "UINT8", "BOOL"):
            yield case("REVERSE_V2", (example(type, shape), index(axes)), [shape])
    for pair in ((0, 1), (1, 2), (2, 3), (1, 3)):
        oracle = "none" if pair == (1, 3) else "tflm"
        reverse = case("REVERSE_V2", (example("INT8", (2, 3, 2, 4)), index(pair)), [(2, 3, 2, 4)], oracle)
        yield Case(reverse.node, None, oracle, "" if oracle == "tflm" else "both take neighbouring axes only")


OPS = (
    Op("SLICE", infer, reference, lower, cases, uint8="moves"),
    Op("REVERSE_V2", _infer_reverse, _reverse, _lower_reverse, _reverse_cases, uint8="moves"),
)
