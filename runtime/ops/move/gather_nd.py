"""GATHER_ND: slices picked by numbers along several leading dimensions. Source of the rules: LiteRT gather_nd.cc."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime import constant
from twinfer.runtime.graph import DTYPES, Array, Node, Tensor
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.ops.core.loops import LOOPS
from twinfer.runtime.ops.move._move import case, copy_call, example, index, mover
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def depth_of(node: Node, at: Tensor, shape: Shape) -> int:
    """How many leading dimensions of ``shape`` each row of ``at`` has a number for, checked."""
    need(len(at.shape) >= 1, node, f"{at} must have at least one dimension")
    depth = at.shape[-1]
    need(1 <= depth <= len(shape), node, f"rows of {at} must have 1 to {len(shape)} numbers")
    if depth > LOOPS:
        raise unsupported(node, f"rows of {at} have {depth} numbers, {LOOPS} are the limit: reshape the tensor")
    return depth


def check_inside(node: Node, at: Tensor, shape: Shape) -> None:
    """ModelError if constant numbers are outside of the dimensions that they are for."""
    if at.data is not None:
        inside = (at.data >= 0) & (at.data < np.array(shape[: at.shape[-1]], np.int64))
        need(bool(inside.all()), node, f"{at} has numbers outside of {list(shape[: at.shape[-1]])}")


def infer(node: Node) -> list[Shape]:
    x, at = mover(node, 2, alike=True), node.input(1)
    need_type(node, at, "INT32", "INT64", "INT16")
    depth = depth_of(node, at, x.shape)
    need(at.size == 0 or all(x.shape[:depth]), node, f"{x} is empty where {at} picks")
    check_inside(node, at, x.shape)
    return [(*at.shape[:-1], *x.shape[depth:])]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Numbers outside take the nearest slice; LiteRT refuses them at run time."""
    x, at = inputs
    limits = np.array(x.shape[: at.shape[-1]], np.int64) - 1
    numbers = np.clip(at.astype(np.int64), 0, np.maximum(limits, 0))
    return [np.asarray(x[tuple(np.moveaxis(numbers, -1, 0))] if at.size else np.empty(node.output.shape, x.dtype))]


def _picked(x: Tensor, at: Array) -> Array:
    """The slices of constant numbers, counted over all leading dimensions."""
    flat = np.zeros(at.shape[:-1], np.int64)
    for d in range(at.shape[-1]):
        flat = flat * x.shape[d] + at[..., d]
    return np.asarray(flat, np.int32)


def lower(node: Node, target: Target) -> Call:
    x, at, y = node.input(0), node.input(1), node.output
    if not y.size:
        return copy_call(node)
    depth = at.shape[-1]
    run = math.prod(x.shape[depth:]) * x.dtype.itemsize
    count = math.prod(at.shape[:-1])
    if at.data is not None:
        flat: dict[str, Param] = {"batch": 1, "outer": 1, "count": math.prod(x.shape[:depth]), "picked": count}
        return Call("tw_gather", {**flat, "run": run, "wide": 4}, (x, constant.index(_picked(x, at.data))), (y,))
    extents = (*x.shape[:depth], *[1] * (LOOPS - depth))
    params: dict[str, Param] = {"count": count, "depth": depth, "wide": at.dtype.itemsize, "run": run, "n": extents}
    return Call("tw_gather_nd", params, (x, at), (y,))


def _case(rng: np.random.Generator, type: str, shape: Shape, at: Shape, fed: str = "", oracle: str = "tflm") -> Case:
    x, depth = example(type, shape), at[-1]
    numbers = np.stack([rng.integers(0, n, at[:-1]) for n in shape[:depth]], -1)
    given = tensor(at, fed, name="at") if fed else index(numbers.ravel().tolist(), shape=at)
    picks = case("GATHER_ND", (x, given), [(*at[:-1], *shape[depth:])], oracle)
    values = rng.integers(0 if x.dtype.kind in "ub" else -100, 100, shape).astype(x.dtype)
    return Case(picks.node, (values, numbers.astype(DTYPES[fed])) if fed else (values,), oracle)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    forms: tuple[tuple[Shape, Shape], ...] = (
        ((7,), (3, 1)), ((5, 6), (4, 1)), ((5, 6), (4, 2)), ((3, 4, 5), (2, 3, 2)), ((2, 3, 4, 5), (2, 4)),
        ((4, 5), (1,)), ((2, 3, 2, 3, 4), (6, 5)),
    )  # fmt: skip
    for shape, at in forms:
        for type in ("INT8", "FLOAT32"):
            yield _case(rng, type, shape, at)
            yield _case(rng, type, shape, at, "INT32")
    for type in ("INT16", "INT32", "INT64", "UINT8", "BOOL"):
        yield _case(rng, type, (3, 4, 5), (6, 2), oracle="litert")
        yield _case(rng, type, (3, 4, 5), (6, 2), "INT64", oracle="litert")
    yield _case(rng, "INT8", (3, 4, 5), (6, 2), "INT16", oracle="litert")
    outside = _case(rng, "INT8", (3, 4, 5), (9, 2), "INT32")
    why = "LiteRT refuses numbers outside when running, TFLM those beyond the tensor"
    yield Case(outside.node, None, "none", why)


OP = Op("GATHER_ND", infer, reference, lower, cases)
