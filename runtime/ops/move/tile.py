"""BROADCAST_TO and TILE: a tensor repeated along its axes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, unsupported
from twinfer.runtime.ops.core.loops import LOOPS, filled
from twinfer.runtime.ops.move._move import Axis, case, collapse, example, index, indices, mover, slice_call, steps
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def infer_broadcast(node: Node) -> list[Shape]:
    x, shape = mover(node, 2), tuple(indices(node, 1))
    need(all(n >= 0 for n in shape), node, f"{list(shape)} is not a valid shape")
    need(len(shape) >= len(x.shape), node, f"{x} has more dimensions than {list(shape)}")
    pairs = zip(x.shape[::-1], shape[::-1], strict=False)
    need(all(n in (1, m) for n, m in pairs), node, f"{x} does not broadcast to {list(shape)}")
    return [shape]


def infer_tile(node: Node) -> list[Shape]:
    x = mover(node, 2)
    times = indices(node, 1, len(x.shape))
    need(all(n >= 0 for n in times), node, f"multiples {times} must not be negative")
    return [tuple(n * t for n, t in zip(x.shape, times, strict=True))]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    if node.op == "TILE":
        return [np.tile(inputs[0], tuple(indices(node, 1)))]
    return [np.broadcast_to(inputs[0], node.output.shape).copy()]


def _lower_broadcast(node: Node, target: Target) -> Call:
    """Repeated axes are read with a step of 0."""
    x, shape = node.input(0), node.output.shape
    lead = len(shape) - len(x.shape)
    own = [(1, 0)] * lead + list(zip(x.shape, steps(x.shape, x.dtype.itemsize), strict=True))
    return slice_call(node, 0, [(m, step if n == m else 0) for m, (n, step) in zip(shape, own, strict=True)])


def _lower_tile(node: Node, target: Target) -> Call:
    """As a slice whose axes are read several times; by a kernel of its own where these are too many loops."""
    x, walk = node.input(0), list[Axis]()
    for times, n, step in zip(indices(node, 1), x.shape, steps(x.shape, x.dtype.itemsize), strict=True):
        walk += [(times, 0), (n, step)]
    if not node.output.size or len(collapse(walk, x.dtype.itemsize)[0]) <= LOOPS + 1:
        return slice_call(node, 0, walk)
    axes = _repeated(x.shape, indices(node, 1))
    if len(axes) > LOOPS:
        raise unsupported(
            node, f"{x} is repeated along {len(axes)} axes, {LOOPS} are the limit: repeat it in two steps"
        )
    params: dict[str, Param] = {
        "row": axes[-1][0] * x.dtype.itemsize, "n": filled([n for n, _ in axes], 1),
        "times": filled([times for _, times in axes], 1),
    }  # fmt: skip
    return Call("tw_tile", params, (x,), (node.output,))


def _repeated(shape: Shape, times: list[int]) -> list[Axis]:
    """Extent and repetitions of every axis; one that is not repeated is part of the one before it."""
    axes: list[Axis] = []
    for n, count in zip(shape, times, strict=True):
        if axes and count == 1:
            axes[-1] = (axes[-1][0] * n, axes[-1][1])
        else:
            axes.append((n, count))
    return axes


def broadcast_cases(rng: np.random.Generator) -> Iterator[Case]:
    forms: tuple[tuple[Shape, Shape], ...] = (
        ((), (3,)), ((1,), (300,)), ((5,), (3, 5)), ((5, 1), (5, 7)), ((3, 1, 4), (2, 3, 6, 4)),
        ((1, 5, 1, 3), (2, 5, 7, 3)), ((4, 3), (4, 3)), ((2, 1, 3, 1, 2), (2, 4, 3, 5, 2)),
    )  # fmt: skip
    for i, (shape, out) in enumerate(forms):
        for type in ("INT8", ("FLOAT32", "INT32", "BOOL", "INT16")[i % 4]):
            yield case("BROADCAST_TO", (example(type, shape), index(out)), [out])


def tile_cases(rng: np.random.Generator) -> Iterator[Case]:
    forms: tuple[tuple[Shape, Shape], ...] = (
        ((3,), (1,)), ((3,), (5,)), ((2, 5), (3, 1)), ((2, 5), (1, 3)), ((2, 3, 4), (2, 1, 3)), ((1, 3, 1), (4, 2, 1)),
        ((2, 3, 2), (2, 2, 2)), ((2, 3), (0, 2)),
    )  # fmt: skip
    for i, (shape, times) in enumerate(forms):
        out = tuple(n * t for n, t in zip(shape, times, strict=True))
        for type in ("INT8", ("FLOAT32", "INT32", "BOOL", "INT64")[i % 4]):
            yield case("TILE", (example(type, shape), index(times)), [out], "litert")
    for shape, times in (((2, 3, 2, 3), (2, 3, 2, 2)), ((2, 1, 3, 2, 2), (3, 2, 2, 3, 2)), ((2,) * 5, (2, 2, 1, 2, 2))):
        out = tuple(n * t for n, t in zip(shape, times, strict=True))
        yield case("TILE", (example("INT8", shape), index(times)), [out], "litert")
        yield case("TILE", (example("FLOAT32", shape), index(times)), [out], "litert")


OPS = (
    Op("BROADCAST_TO", infer_broadcast, reference, _lower_broadcast, broadcast_cases, uint8="moves"),
    Op("TILE", infer_tile, reference, _lower_tile, tile_cases, uint8="moves"),
)
