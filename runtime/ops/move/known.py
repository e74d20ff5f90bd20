"""BROADCAST_ARGS, RANGE and WHERE: results of shapes and constants, which are computed when planning."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.ops.move._move import check_arity, index, known_call
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def _infer_args(node: Node) -> list[Shape]:
    """Source: LiteRT kernels/broadcast_args.cc."""
    check_arity(node, 2)
    a, b, y = node.input(0), node.input(1), node.output
    need_type(node, a, "INT32", "INT64")
    need(a.type == b.type == y.type, node, f"{a}, {b} and {y} must have one type")
    need(len(a.shape) == 1 == len(b.shape), node, f"{a} and {b} must have one dimension")
    if a.data is not None and b.data is not None:
        pairs = zip(a.data[::-1].tolist(), b.data[::-1].tolist(), strict=False)
        need(all(m == n or 1 in (m, n) for m, n in pairs), node, f"{a.data} and {b.data} do not broadcast")
    return [(max(a.shape[0], b.shape[0]),)]


def _args(node: Node, inputs: list[Any]) -> list[Array]:
    rank = max(map(len, inputs))
    a, b = (np.concatenate([np.ones(rank - len(v), v.dtype), v]) for v in inputs)
    return [np.where(a == 1, b, a)]


def _lower_args(node: Node, target: Target) -> Call:
    a, b = node.input(0), node.input(1)
    kernel = "tw_broadcast_args_s32" if a.type == "INT32" else "tw_broadcast_args_s64"
    return Call(kernel, {"a": a.size, "b": b.size}, (a, b), (node.output,))


def _infer_range(node: Node) -> list[Shape]:
    """Source: LiteRT kernels/range.cc, which computes floats in float32."""
    check_arity(node, 3)
    need_type(node, node.input(0), "INT32", "INT64", "FLOAT32")
    for t in (*(node.input(i) for i in range(3)), node.output):
        need(t.type == node.input(0).type, node, f"{t} must have the type of {node.input(0)}")
    for i in range(3):
        need(node.constant(i).size == 1, node, f"{node.input(i)} must be a single number")
    start, limit, delta = (node.constant(i).reshape(()) for i in range(3))
    need(bool(np.isfinite([start, limit, delta]).all()), node, f"{start}, {limit} and {delta} must be finite")
    goes = delta > 0 if start < limit else delta < 0 if start > limit else delta != 0
    need(bool(goes), node, f"steps of {delta} do not lead from {start} to {limit}")
    if start.dtype.kind == "f":
        return [(math.ceil(abs(_quotient(limit, start, delta))),)]
    return [(-(-abs(int(limit) - int(start)) // abs(int(delta))),)]


def _quotient(limit: Array, start: Array, delta: Array) -> float:
    with np.errstate(all="ignore"):
        steps = float((np.float32(limit) - np.float32(start)) / np.float32(delta))
    if not abs(steps) < 1 << 31:
        raise UnsupportedOperatorError(f"RANGE: from {start} to {limit} are too many steps of {delta}")
    return steps


def _range(node: Node, inputs: list[Any]) -> list[Array]:
    """One step after the other: floats round at each."""
    start, _, delta = (v.reshape(()) for v in inputs)
    steps = np.full(_infer_range(node)[0], delta, node.output.dtype)
    steps[:1] = start
    return [np.add.accumulate(steps, dtype=node.output.dtype)]


def _lower_range(node: Node, target: Target) -> Call:
    return known_call(node, _range(node, [node.constant(i) for i in range(3)])[0])


def _infer_where(node: Node) -> list[Shape]:
    """Source: LiteRT kernels/where.cc."""
    check_arity(node, 1)
    condition = node.input(0)
    need_type(node, condition, "BOOL", "FLOAT32", "INT32", "INT64", "INT8", "UINT8", "UINT32")
    need_type(node, node.output, "INT64")
    if condition.data is None:
        raise unsupported(
            node, f"{condition} is computed at run time, so that the result has no fixed size: use SELECT_V2 or a mask"
        )
    return [(int(np.count_nonzero(condition.data)), len(condition.shape))]


def _where(node: Node, inputs: list[Any]) -> list[Array]:
    return [np.argwhere(inputs[0]).astype(np.int64)]


def _lower_where(node: Node, target: Target) -> Call:
    return known_call(node, _where(node, [node.constant(0)])[0])


def _args_cases(rng: np.random.Generator) -> Iterator[Case]:
    for i, (a, b) in enumerate(
        (((3, 1, 5), (4, 1)), ((4, 1), (3, 1, 5)), ((2, 3), (2, 3)), ((1,), (7,)), ((), (2, 2)))
    ):
        for type in ("INT32", "INT64"):
            y = tensor((max(len(a), len(b)),), type, name="y")
            shapes = tuple(np.array(v, y.dtype) for v in (a, b))
            fed = tuple(tensor((len(v),), type, name=n) for v, n in zip((a, b), "ab", strict=True))
            yield Case(Node("BROADCAST_ARGS", fed, (y,)), shapes, "tflm" if len(a) and i < 4 else "litert")
    y = tensor((3,), "INT32", name="y")
    yield Case(Node("BROADCAST_ARGS", (index((3, 1, 5)), tensor((2,), "INT32")), (y,)), (np.array([4, 1], np.int32),))


def _range_cases(rng: np.random.Generator) -> Iterator[Case]:
    for type, forms in (
        ("INT32", ((0, 10, 3), (5, -5, -2), (4, 4, 1), (-3, 9, 4))),
        ("INT64", ((0, 2**40, 2**37), (7, 0, -1))),
        ("FLOAT32", ((0.0, 1.0, 0.1), (3.0, -2.0, -0.7), (0.5, 0.5, 1.0), (0.0, 100.0, 0.3))),
    ):
        for form in forms:
            inputs = tuple(tensor((), type, data=np.array(v), name=n) for v, n in zip(form, "sld", strict=True))
            shape = _infer_range(Node("RANGE", inputs, (tensor((), type),)))[0]
            node = Node("RANGE", inputs, (tensor(shape, type, name="y"),))
            yield Case(node, None, *(("litert",) if shape[0] else ("none", "LiteRT's API shows no empty output")))


def _where_cases(rng: np.random.Generator) -> Iterator[Case]:
    for type in ("BOOL", "FLOAT32", "INT8", "INT32"):
        for shape in ((5,), (3, 4), (2, 3, 2)):
            mask = rng.integers(0, 2, shape)
            condition = tensor(shape, type, data=mask)
            y = tensor((int(np.count_nonzero(mask)), len(shape)), "INT64", name="y")
            yield Case(Node("WHERE", (condition,), (y,)), None, "litert")


OPS = (
    Op("BROADCAST_ARGS", _infer_args, _args, _lower_args, _args_cases),
    Op("RANGE", _infer_range, _range, _lower_range, _range_cases),
    Op("WHERE", _infer_where, _where, _lower_where, _where_cases),
)
