"""EMBEDDING_LOOKUP: rows picked by number; int8 rows may become floats. Source: TFLM and LiteRT embedding_lookup.cc."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from twinfer.runtime import constant
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.ops.move._move import check_arity, check_moved, copy_call, example, same_meaning
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def infer(node: Node) -> list[Shape]:
    check_arity(node, 2)
    at, x, y = node.input(0), node.input(1), node.output
    need_type(node, at, "INT32")
    need(len(at.shape) == 1 and len(x.shape) >= 2, node, f"{at} must have one dimension, and {x} two or more")
    need(x.shape[0] > 0 or not at.size, node, f"{x} has no rows")
    if at.data is not None:
        need(bool(((at.data >= 0) & (at.data < x.shape[0])).all()), node, f"{at} has numbers outside of {x}")
    if _as_float(node):
        _check_scales(node, x)
    else:
        check_moved(node, x)
        if not same_meaning(x, y):
            raise unsupported(node, f"{x} and {y} must be quantised alike: requantise them")
    return [(*at.shape, *x.shape[1:])]


def _as_float(node: Node) -> bool:
    return node.input(1).type == "INT8" and node.output.type == "FLOAT32"


def _check_scales(node: Node, x: Tensor) -> None:
    if x.quant is None:
        raise ModelError(f"{node}: {x} has no scale")
    each = x.quant.scale.size > 1
    need(x.quant.scale.size == (x.shape[0] if each else 1), node, f"{x} needs one scale, or one per row")
    need(not each or x.quant.axis == 0, node, f"the scales of {x} must be those of its rows")
    need(not x.quant.zero_point.any(), node, f"{x} must have zero points of 0")


def _scales(x: Tensor) -> Array:
    return np.ones(1, np.float32) if x.quant is None else np.asarray(x.quant.scale, np.float32)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Numbers outside take the nearest row; the references refuse them at run time."""
    at = np.clip(inputs[0], 0, max(node.input(1).shape[0] - 1, 0))
    rows = inputs[1][at]
    if not _as_float(node):
        return [rows]
    scales = _scales(node.input(1))
    own = scales[at] if scales.size > 1 else scales
    return [rows.astype(np.float32) * own.reshape(-1, *[1] * (rows.ndim - 1))]


def lower(node: Node, target: Target) -> Call:
    at, x, y = node.input(0), node.input(1), node.output
    if not y.size:
        return copy_call(node)
    rows, run = x.shape[0], math.prod(x.shape[1:])
    if _as_float(node):
        scales = _scales(x)
        params = {"rows": rows, "run": run, "count": at.size, "each": int(scales.size > 1)}
        return Call("tw_embedding_lookup", params, (x, at, constant.requantize(scales)), (y,))
    bytes_ = run * x.dtype.itemsize
    gather = {"batch": 1, "outer": 1, "count": rows, "picked": at.size, "run": bytes_, "wide": 4}
    return Call("tw_gather", gather, (x, at), (y,))


def _case(
    rng: np.random.Generator, x: Tensor, y: str, count: int, oracle: str = "tflm", why: str = "", out: bool = False
) -> Case:
    at = rng.integers(-3 if out else 0, x.shape[0] + 3 * out, count).astype(np.int32)
    rows = rng.integers(-128, 128, x.shape).astype(x.dtype)
    output = Tensor("y", y, (count, *x.shape[1:]), None if y == "FLOAT32" else x.quant)
    node = Node("EMBEDDING_LOOKUP", (tensor((count,), "INT32", name="at"), x), (output,))
    return Case(node, (at, rows), oracle, why)


def _int8(shape: Shape, scale: float | Sequence[float] = 0.5) -> Tensor:
    return tensor(shape, "INT8", scale, name="rows")


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for shape, count in (((5, 7), 3), ((1, 1), 1), ((9, 2, 33), 20)):
        yield _case(rng, tensor(shape, name="rows"), "FLOAT32", count)
        yield _case(rng, example("INT8", shape), "INT8", count)
        yield _case(rng, _int8(shape, 0.3), "FLOAT32", count)
    yield _case(rng, _int8((4, 9), (0.1, 0.25, 3.0, 1e-3)), "FLOAT32", 6, "litert")
    yield _case(
        rng, _int8((5, 7)), "FLOAT32", 9, "none", "the references refuse numbers outside when running", out=True
    )
    rows = tensor((4, 3), data=np.arange(12), name="rows")
    picks = tensor((2,), "INT32", name="at")
    yield Case(Node("EMBEDDING_LOOKUP", (picks, rows), (tensor((2, 3), name="y"),)), (np.array([3, 1], np.int32),))
    for type in ("INT16", "INT32", "INT64", "UINT8", "UINT32", "BOOL", "FLOAT16", "FLOAT64"):
        yield _case(rng, tensor((5, 7), type, name="rows"), type, 3, "litert")


OP = Op("EMBEDDING_LOOKUP", infer, reference, lower, cases, picks_rows=True)
