"""SUM, REDUCE_PROD, REDUCE_MAX, REDUCE_MIN, REDUCE_ANY and REDUCE_ALL over any dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from twinfer.runtime.fixed_point import quantize_multiplier, requantize, wrap32
from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import SUFFIX, Case, Op, Shape, Uint8, need, need_type, tensor, unsupported
from twinfer.runtime.ops.core.activation import FLOAT_MAX
from twinfer.runtime.ops.core.quantized import need_symmetric
from twinfer.runtime.ops.move._move import same_meaning
from twinfer.runtime.ops.reduce._reduce import (
    axes_of,
    count_of,
    reduced_axes,
    reduced_shape,
    reduction,
    rows_of,
    sum_in_order,
)
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

#: Most values whose centred sum is sure to fit int32.
MOST = {"INT8": 1 << 22, "INT16": (1 << 16) - 1}

_NUMBERS = ("FLOAT32", "INT8", "INT16", "INT32", "INT64")

TYPES: dict[str, tuple[str, ...]] = {
    "SUM": _NUMBERS,
    "REDUCE_PROD": ("FLOAT32", "INT32", "INT64"),
    **dict.fromkeys(("REDUCE_MAX", "REDUCE_MIN"), (*_NUMBERS, "UINT8", "BOOL")),  # uint8 without scales
    "REDUCE_ANY": ("BOOL",),
    "REDUCE_ALL": ("BOOL",),
}


def infer(node: Node) -> list[Shape]:
    need(len(node.inputs) == 2, node, f"it has {len(node.inputs)} inputs, not 2")
    x, y = node.input(0), node.output
    need_type(node, x, *TYPES[node.op])
    need(x.type == y.type, node, f"{x} and {y} differ in type")
    need(count_of(node) > 0, node, f"{x} is empty along {list(axes_of(node))}")
    if x.type in MOST:
        need_symmetric(node, x, y)
        if node.op != "SUM" and not same_meaning(x, y):
            raise unsupported(node, f"{x} and {y} must be quantised alike")
        if node.op == "SUM" and count_of(node) > MOST[x.type]:
            raise unsupported(node, f"the sum of {count_of(node)} values of {x} may not fit int32: split the reduction")
    reduced_axes(node)
    return [reduced_shape(node)]


def _sum(node: Node, x: Array) -> Array:
    """Source of int8 and int16: TFLM reference/reduce.h, QuantizedMeanOrSum. LiteRT's SUM of int16 adds stored bits."""
    axes = axes_of(node)
    if x.dtype == np.float32:
        return sum_in_order(node, x)
    total = x.astype(np.int64).sum(axis=axes)
    if x.dtype.name not in ("int8", "int16"):
        return wrap32(total) if x.dtype == np.int32 else np.asarray(total)
    info = np.iinfo(x.dtype)
    mult, shift = quantize_multiplier(node.input(0).scale / node.output.scale)
    steps = requantize(total - node.input(0).zero * count_of(node), mult, shift)
    return np.asarray(np.clip(wrap32(steps + node.output.zero), info.min, info.max))


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    x = inputs[0]
    if node.op == "SUM":
        reduced = _sum(node, x)
    elif node.op == "REDUCE_PROD":
        with np.errstate(over="ignore", invalid="ignore"):
            reduced = np.multiply.accumulate(rows_of(node, x), axis=1, dtype=x.dtype)[:, -1]
    elif x.dtype == np.float32:  # begins with a finite value, and passes by what is no number
        sign = np.float32(1 if node.op == "REDUCE_MAX" else -1)
        best = np.full(len(rows_of(node, x)), -FLOAT_MAX, np.float32)
        for values in rows_of(node, sign * x).T:
            best = np.where(values > best, values, best)
        reduced = sign * best
    else:
        reduced = (np.max if node.op in ("REDUCE_MAX", "REDUCE_ANY") else np.min)(x, axis=axes_of(node))
    return [np.asarray(reduced).reshape(node.output.shape).astype(x.dtype)]


def lower(node: Node, target: Target) -> Call:
    x, y = node.input(0), node.output
    params: dict[str, Param] = {"axes": reduced_axes(node)._asdict()}
    if node.op == "REDUCE_PROD":
        return Call(f"tw_reduce_prod_{SUFFIX[x.type]}", params, (x,), (y,))
    if node.op != "SUM":
        params["minimum"] = int(node.op in ("REDUCE_MIN", "REDUCE_ALL"))
        return Call(f"tw_reduce_max_{SUFFIX[x.type]}", params, (x,), (y,))
    if x.type not in MOST:
        return Call(f"tw_sum_{SUFFIX[x.type]}", params, (x,), (y,))
    mult, shift = quantize_multiplier(x.scale / y.scale)
    params |= {"zero": x.zero * count_of(node), "mult": mult, "shift": shift, "out_zero": y.zero}
    return Call(f"tw_mean_{SUFFIX[x.type]}", params, (x,), (y,))


def _case(
    op: str, x: Tensor, axes: Sequence[int], keep: bool, quant: tuple[float, int] | None = None, oracle: str = "tflm"
) -> Case:
    return Case(reduction(op, x, axes, keep, quant), None, oracle)


_FORMS: tuple[tuple[Shape, Sequence[int]], ...] = (
    ((2, 5, 3, 70), (1, 2)), ((2, 5, 3, 7), (-1,)), ((2, 5, 3, 7), (0,)), ((2, 5, 3, 7), (1, 3)),
    ((2, 5, 3, 7), (0, 2)), ((2, 5, 3, 7), (-3, 1, -4)), ((2, 5, 3, 7), (0, 1, 2, 3)), ((11, 130), (0,)),
    ((11, 13), (1,)), ((9,), (0,)), ((1, 1, 1, 8), (1, 2)),
)  # fmt: skip


def cases(op: str, rng: np.random.Generator) -> Iterator[Case]:
    for i, (shape, axes) in enumerate(_FORMS):
        keep = i % 2 == 0
        if TYPES[op] == ("BOOL",):
            yield _case(op, tensor(shape, "BOOL"), axes, keep, oracle="tflm" if op == "REDUCE_ALL" else "litert")
            continue
        if op == "REDUCE_PROD":
            for type in TYPES[op]:
                yield _case(op, tensor(shape, type), axes, keep, oracle="litert")
            continue
        yield _case(op, tensor(shape), axes, keep)
        yield _case(op, tensor(shape, "INT8", 0.05, 3), axes, keep, (0.05, 3))
        yield _case(op, tensor(shape, ("INT32", "INT64")[i % 3 == 1]), axes, keep, oracle="litert")
        oracle = "tflm" if op == "SUM" else "litert"
        yield _case(op, tensor(shape, "INT16", 3e-4), axes, keep, (3e-4, 0), oracle)
    if "UINT8" in TYPES[op]:
        for shape, axes in _FORMS[::4]:
            for type in ("BOOL", "UINT8"):
                yield _case(op, tensor(shape, type), axes, False, oracle="litert")
    if op == "SUM":
        for scale in (1e-3, 7.0, 1e-5):
            yield _case(op, tensor((1, 7, 3, 5), "INT16", 3e-4), (1, 2), True, (scale, 0))
        for scale, zero in ((0.05, -100), (1.0, 0), (7.0, 127), (1e-3, 5)):
            yield _case(op, tensor((1, 7, 3, 5), "INT8", 0.05, 40), (1, 2), True, (scale, zero))


def _op(name: str) -> Op:
    uint8: Uint8 = "computes" if name in ("SUM", "REDUCE_MAX", "REDUCE_MIN") else ""
    return Op(name, infer, reference, lower, lambda rng: cases(name, rng), uint8=uint8)


OPS = tuple(map(_op, TYPES))
