"""SLICE and REVERSE_V2: a box out of a tensor, and a tensor read backwards. Source: LiteRT's kernels of these names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, unsupported
from twinfer.runtime.ops.move._move import (
    axis_in,
    case,
    check_arity,
    check_moved,
    example,
    index,
    indices,
    same_meaning,
    slice_call,
    steps,
)
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def _begin(node: Node) -> list[int]:
    return indices(node, 1, len(node.input(0).shape))


def infer(node: Node) -> list[Shape]:
    check_arity(node, 3)
    x, begin = node.input(0), _begin(node)
    check_moved(node, x)
    sizes = indices(node, 2, len(x.shape))
    need(len(node.input(1).shape) == 1 == len(node.input(2).shape), node, "begin and size must have one dimension")
    shape = tuple(n - at if size == -1 else size for n, at, size in zip(x.shape, begin, sizes, strict=True))
    fits = all(at >= 0 <= size and at + size <= n for n, at, size in zip(x.shape, begin, shape, strict=True))
    need(fits, node, f"begin {begin}, size {sizes} is not inside {x}")
    return [shape]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    x, begin, size = inputs
    box = tuple(slice(at, None if n == -1 else at + n) for at, n in zip(begin, size, strict=True))
    return [np.asarray(x[box])]


def lower(node: Node, target: Target) -> Call:
    x = node.input(0)
    step = steps(x.shape, x.dtype.itemsize)
    start = sum(at * s for at, s in zip(_begin(node), step, strict=True))
    return slice_call(node, start, list(zip(node.output.shape, step, strict=True)))


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for type in ("INT8", "INT16", "INT32", "FLOAT32", "BOOL"):
        x = example(type, (3, 4, 5))
        yield case("SLICE", (x, index((1, 0, 2)), index((2, 4, 3))), [(2, 4, 3)])
    forms = (
        ((7,), (2,), (-1,), (5,)),
        ((7,), (0,), (7,), (7,)),
        ((4, 6), (3, 1), (1, 4), (1, 4)),
        ((4, 6), (2, 0), (-1, -1), (2, 6)),
        ((2, 3, 4, 5), (0, 1, 1, 2), (2, 2, 3, 1), (2, 2, 3, 1)),
        ((2, 3, 4, 5), (1, 0, 0, 0), (1, 3, 2, 5), (1, 3, 2, 5)),
        ((2, 3, 2, 3, 4), (0, 1, 1, 0, 1), (2, 1, 1, 3, 3), (2, 1, 1, 3, 3)),
    )
    for shape, begin, size, out in forms:
        yield case("SLICE", (example("INT8", shape), index(begin), index(size)), [out])
    for type in ("UINT8", "INT64"):
        inputs = (example(type, (4, 6)), index((1, 2), "INT64"), index((2, -1), "INT64"))
        yield case("SLICE", inputs, [(2, 4)], "litert")


def _backwards(node: Node) -> list[int]:
    """The axes that are read backwards, counted from the front."""
    axes = [axis_in(node, axis, len(node.input(0).shape)) for axis in indices(node, 1)]
    need(len(set(axes)) == len(axes), node, f"{node.input(1)} names an axis twice")
    return axes


def _infer_reverse(node: Node) -> list[Shape]:
    check_arity(node, 2)
    x = node.input(0)
    check_moved(node, x)
    need(len(node.input(1).shape) == 1, node, f"{node.input(1)} must have one dimension")
    if not same_meaning(x, node.output):
        raise unsupported(node, f"{x} and {node.output} must be quantised alike: requantise them")
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
    Op("SLICE", infer, reference, lower, cases),
    Op("REVERSE_V2", _infer_reverse, _reverse, _lower_reverse, _reverse_cases),
)
