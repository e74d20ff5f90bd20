"""GATHER: slices along one dimension, picked by number. Source of the rules: LiteRT kernels/gather.cc."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime import constant
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor
from twinfer.runtime.ops.move._move import axis_in, case, copy_call, example, index, mover
from twinfer.runtime.program import Call
from twinfer.runtime.rows import Rows
from twinfer.runtime.target import Target


def _axes(node: Node) -> tuple[int, int]:
    """The axis that is picked along, and how many leading dimensions both inputs share."""
    x, at = node.input(0), node.input(1)
    axis = axis_in(node, int(node.options.get("axis", 0)), len(x.shape))
    given = int(node.options.get("batch_dims", 0))
    batch = given + len(at.shape) if given < 0 else given
    fits = 0 <= batch <= min(axis, len(at.shape)) and x.shape[:batch] == at.shape[:batch]
    need(fits, node, f"{x} and {at} do not share {given} leading dimensions before axis {axis}")
    return axis, batch


def infer(node: Node) -> list[Shape]:
    x, at = mover(node, 2), node.input(1)
    need_type(node, at, "INT32", "INT64", "INT16")
    axis, batch = _axes(node)
    count = x.shape[axis]
    need(at.size == 0 or count > 0, node, f"{x} is empty along axis {axis}")
    if at.data is not None:
        inside = ((at.data >= 0) & (at.data < count)).all()
        need(bool(inside), node, f"{at} has numbers outside 0..{count - 1}")
    return [(*x.shape[:axis], *at.shape[batch:], *x.shape[axis + 1 :])]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Numbers outside take the nearest slice; LiteRT refuses them at run time."""
    x, at = inputs
    axis, batch = _axes(node)
    flat = x.reshape(math.prod(x.shape[:batch]), *x.shape[batch:])
    picked = np.clip(at, 0, max(x.shape[axis] - 1, 0)).reshape(len(flat), *at.shape[batch:])
    slices = [np.take(part, i, axis - batch) for part, i in zip(flat, picked, strict=True)]
    return [np.asarray(slices, x.dtype).reshape(node.output.shape)]


def lower(node: Node, target: Target) -> Call:
    x, at, y = node.input(0), node.input(1), node.output
    if not y.size:
        return copy_call(node)
    axis, batch = _axes(node)
    by_rows = Rows(counts=("outer",)) if axis > 1 and batch == 0 else None
    run = math.prod(x.shape[axis + 1 :]) * x.dtype.itemsize
    if at.data is not None and batch == 0:
        runs = _runs(at.data.reshape(-1)) * run
        if 2 * len(runs) <= at.size:
            lengths = {"outer": math.prod(x.shape[:axis]), "size": x.shape[axis] * run, "runs": len(runs)}
            return Call("tw_gather_runs", lengths, (x, constant.index(runs)), (y,), rows=by_rows)
    params = {
        "batch": math.prod(x.shape[:batch]), "outer": math.prod(x.shape[batch:axis]), "count": x.shape[axis],
        "picked": math.prod(at.shape[batch:]), "run": run,
        "wide": at.dtype.itemsize if at.data is None else 4,
    }  # fmt: skip
    numbers = at if at.data is None else constant.index(at.data.astype(np.int32))
    return Call("tw_gather", params, (x, numbers), (y,), rows=by_rows)


def _runs(at: Array) -> Array:
    """Numbers as runs of neighbours, int32 [runs, 2]: the first, and how many."""
    first = np.flatnonzero(np.diff(at, prepend=at[0] - 2) != 1)
    return np.stack([at[first], np.diff(first, append=at.size)], axis=1).astype(np.int32)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    def one(
        type: str, shapes: tuple[Shape, Shape], axis: int, batch: int = 0, *, fed: str = "", oracle: str = "tflm"
    ) -> Case:
        shape, at = shapes
        shared = batch + len(at) if batch < 0 else batch
        place, count = axis % len(shape), shape[axis]
        numbers = rng.integers(0, count, at)
        x = example(type, shape)
        out = (*shape[:place], *at[shared:], *shape[place + 1 :])
        given = tensor(at, fed, name="at") if fed else index(numbers.ravel().tolist(), shape=at)
        gather = case("GATHER", (x, given), [out], oracle, axis=axis, batch_dims=batch)
        if not fed:
            return gather
        values = rng.integers(-100, 100, shape).astype(x.dtype)
        return Case(gather.node, (values, numbers.astype(given.dtype)), oracle)

    for type in ("INT8", "FLOAT32"):
        yield one(type, ((7,), (3,)), 0)
        yield one(type, ((5, 6), (4,)), 0, fed="INT32")
        yield one(type, ((5, 6), (2, 3)), 1)
        yield one(type, ((3, 4, 5), (2,)), -2, fed="INT32")
        yield one(type, ((3, 4, 5), (3, 2)), 1, 1)
        yield one(type, ((2, 3, 4, 5), (2, 3)), 2, 1, fed="INT32")
    yield one("INT32", ((5, 6), ()), 0, oracle="litert")
    yield one("INT32", ((5, 6), (9,)), 1, fed="INT64", oracle="litert")
    yield one("BOOL", ((5, 6), (9,)), 1, oracle="litert")
    outer = (example("INT8", (5, 6)), tensor((9,), "INT32", name="at"))
    outside = case("GATHER", outer, [(5, 9)], axis=1, batch_dims=0)
    yield Case(outside.node, None, "none", "both refuse numbers outside when running")
    yield one("INT8", ((3, 4, 5), (3, 2)), 1, -1)
    yield one("FLOAT32", ((2, 3, 4, 5), (2, 3)), 2, -1, fed="INT32", oracle="litert")
    yield one("FLOAT32", ((2, 3, 4), (2, 5)), 1, 1, fed="INT16", oracle="litert")


OP = Op("GATHER", infer, reference, lower, cases, uint8="moves", picks_rows=True)
