"""TRANSPOSE: axes in another order. Source of the rules: TFLM kernels/transpose.cc, LiteRT kernels/transpose.cc."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Node
from twinfer.runtime.op import Array, Call, Case, Op, Shape, need
from twinfer.runtime.ops.core.loops import LOOPS, filled
from twinfer.runtime.ops.move._move import (
    Axis,
    case,
    check_arity,
    check_moved,
    collapse,
    copy_call,
    example,
    index,
    indices,
    slice_call,
    steps,
)
from twinfer.runtime.params import Param
from twinfer.runtime.target import Target

#: Bytes in a row of tw_transpose's square tiles, and the element sizes that it takes.
TILE_ROW = 16
SIZES = (1, 2, 4, 8)


def infer(node: Node) -> list[Shape]:
    check_arity(node, 2)
    x = node.input(0)
    check_moved(node, x)
    order = indices(node, 1, len(x.shape))
    need(sorted(order) == list(range(len(order))), node, f"permutation {order} does not fit {x}")
    return [tuple(x.shape[i] for i in order)]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    x, order = inputs
    return [np.ascontiguousarray(x.transpose(order))]


def tiled(axes: list[Axis], size: int, target: Target) -> int | None:
    """Which of the collapsed axes is contiguous in the input, if square tiles pay; None: copy row by row."""
    edge = TILE_ROW // size
    unit = next((i for i, (_, step) in enumerate(axes) if step == size), None)
    if not target.wide or size not in SIZES or unit is None or len(axes) > LOOPS + 2:
        return None
    return unit if axes[unit][0] >= edge and axes[-1][0] >= edge else None


def lower(node: Node, target: Target) -> Call:
    x, order = node.input(0), indices(node, 1)
    if not x.size:
        return copy_call(node)
    step = steps(x.shape, x.dtype.itemsize)
    walk = [(x.shape[i], step[i]) for i in order]
    axes, size = collapse(walk, x.dtype.itemsize)
    unit = tiled(axes, size, target)
    return slice_call(node, 0, walk) if unit is None else _tiles(node, axes, size, unit)


def _tiles(node: Node, axes: list[Axis], size: int, unit: int) -> Call:
    y_step = steps(tuple(n for n, _ in axes), size)
    loops = [i for i in range(len(axes) - 1) if i != unit]
    params: dict[str, Param] = {
        "size": size, "rows": axes[-1][0], "cols": axes[unit][0], "x_step": axes[-1][1], "y_step": y_step[unit],
        "n": filled([axes[i][0] for i in loops], 1),
        "x_steps": filled([axes[i][1] for i in loops], 0),
        "y_steps": filled([y_step[i] for i in loops], 0),
    }  # fmt: skip
    return Call("tw_transpose", params, (node.input(0),), (node.output,))


def _case(type: str, shape: Shape, order: tuple[int, ...], oracle: str = "tflm") -> Case:
    out = tuple(shape[i] for i in order)
    return case("TRANSPOSE", (example(type, shape), index(order)), [out], oracle)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    forms = (
        ((7,), (0,)), ((5, 3), (1, 0)), ((16, 16), (1, 0)), ((33, 50), (1, 0)), ((1, 9), (1, 0)), ((4, 5), (0, 1)),
        ((3, 4, 5), (2, 1, 0)), ((3, 4, 5), (0, 2, 1)), ((20, 3, 18), (2, 1, 0)), ((2, 17, 19), (0, 2, 1)),
        ((1, 6, 5, 3), (0, 3, 1, 2)), ((2, 3, 5, 6), (0, 2, 3, 1)), ((2, 3, 4, 5), (0, 2, 1, 3)),
        ((2, 1, 4, 1), (1, 0, 3, 2)), ((17, 2, 3, 21), (3, 1, 2, 0)), ((2, 3, 2, 3, 4), (4, 2, 0, 1, 3)),
    )  # fmt: skip
    for shape, order in forms:
        yield _case("INT8", shape, order, "tflm")
    for type in ("INT16", "FLOAT32"):
        yield _case(type, (3, 18, 26), (0, 2, 1))
        yield _case(type, (9, 2, 11), (2, 1, 0))
    for type in ("INT32", "UINT8", "BOOL", "INT64"):
        yield _case(type, (2, 19, 17), (0, 2, 1), "litert")
    yield _case("INT8", (2, 3, 2, 2, 3, 4), (5, 2, 0, 3, 1, 4), "litert")
    yield _case("INT8", (17, 3, 2, 2, 3, 18), (5, 4, 3, 2, 1, 0), "litert")


OP = Op("TRANSPOSE", infer, reference, lower, cases)
