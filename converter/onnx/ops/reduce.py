"""Reductions and ArgMax."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from twinfer.converter.emit.arithmetic import absolute
from twinfer.converter.emit.emitter import NCHW, NHWC, Emitter, constant
from twinfer.converter.emit.functions import reduced, reduced_shape
from twinfer.converter.onnx.node import OnnxNode, Shape, positive
from twinfer.runtime.graph import LIMITS, Tensor


def _axes(node: OnnxNode) -> Shape:
    """The reduced dimensions in order. If none are named: all, or none if the node says so."""
    rank = len(node.input(0).shape)
    axes = node.ints("axes", 1)
    if axes:
        return tuple(sorted({positive(node, axis, rank) for axis in axes}))
    return () if node.attribute("noop_with_empty_axes", 0) else tuple(range(rank))


def _nothing(node: OnnxNode, value: float) -> Tensor | None:
    """The result of a reduction of no elements, if it is one: this value, or the type's limit for an infinite one."""
    x, axes, keep = node.input(0), _axes(node), bool(node.attribute("keepdims", 1))
    if x.size or not axes:
        return None
    if math.isinf(value) and x.type != "FLOAT32":
        low, high = (0, 1) if x.type == "BOOL" else LIMITS[x.type]
        value = high if value > 0 else low
    return constant(np.full(reduced_shape(x.shape, axes, keep), value, x.dtype))


def _reduction(op: str, nothing: float) -> Callable[[Emitter, OnnxNode], Tensor]:
    """A reduction by one operator; ``nothing``: what it is without elements."""

    def run(g: Emitter, node: OnnxNode) -> Tensor:
        x, axes, keep = node.input(0), _axes(node), bool(node.attribute("keepdims", 1))
        empty = _nothing(node, nothing)
        if empty is not None or not axes:
            return x if empty is None else empty
        if axes == (2, 3) and len(x.shape) == 4:  # global pooling: laid out as other operators over images
            y = reduced(g, op, g.transpose(x, NHWC), (1, 2), keep)
            return g.transpose(y, NCHW) if keep else y
        return reduced(g, op, x, axes, keep)

    return run


def _of(
    before: Callable[[Emitter, Tensor], Tensor],
    after: Callable[[Emitter, Tensor], Tensor] | None = None,
    nothing: float = 0.0,
) -> Callable[[Emitter, OnnxNode], Tensor]:
    """The sum over ``before`` of every element, and ``after`` of the sum. Integers are computed as ONNX Runtime does:
    in their type, functions in float."""

    def run(g: Emitter, node: OnnxNode) -> Tensor:
        x, axes = node.input(0), _axes(node)
        if (empty := _nothing(node, nothing)) is not None:
            return empty
        y = before(g, x)
        y = reduced(g, "SUM", y, axes, bool(node.attribute("keepdims", 1))) if axes else y
        return y if after is None else g.cast(after(g, g.cast(y, "FLOAT32")), x.type)

    return run


def log_sum_exp(g: Emitter, node: OnnxNode) -> Tensor:
    """log(sum(exp(x))) as max(x) + log(sum(exp(x - max(x)))), which does not overflow."""
    x, axes, keep = node.input(0), _axes(node), bool(node.attribute("keepdims", 1))
    empty = _nothing(node, -np.inf)
    if empty is not None or not axes:
        return x if empty is None else empty
    real = g.cast(x, "FLOAT32")
    top = reduced(g, "REDUCE_MAX", real, axes, True)
    total = reduced(g, "SUM", g.unary("EXP", g.binary("SUB", real, top)), axes, True)
    y = g.binary("ADD", g.unary("LOG", total), top)
    return g.cast(y if keep else g.reshape(y, reduced_shape(y.shape, axes, keep)), x.type)


def _arg(op: str) -> Callable[[Emitter, OnnxNode], Tensor]:
    """The first index of the extreme along an axis; the last index is the first one in reversed order."""

    def run(g: Emitter, node: OnnxNode) -> Tensor:
        x, axis = node.input(0), node.axis(0)
        node.need(x.size > 0, "the place of an extreme of nothing; give it elements")
        last = bool(node.attribute("select_last_index", 0))
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        source = g.flip(x, axis) if last else x
        kind = "INT32" if last else "INT64"
        y = g.emit(op, [source, np.array(axis, np.int32)], shape, kind, output_type=kind)
        if last:
            y = g.binary("SUB", np.array(x.shape[axis] - 1, np.int32), y)
            y = g.cast(y, "INT64")
        return g.reshape(y, (*x.shape[:axis], 1, *x.shape[axis + 1 :])) if node.attribute("keepdims", 1) else y

    return run


def _log(g: Emitter, x: Tensor) -> Tensor:
    return g.unary("LOG", x)


IMPORTERS: dict[str, Callable[[Emitter, OnnxNode], Tensor]] = {
    "ArgMax": _arg("ARG_MAX"),
    "ArgMin": _arg("ARG_MIN"),
    "ReduceL1": _of(absolute),
    "ReduceL2": _of(lambda g, x: g.binary("MUL", x, x), lambda g, x: g.unary("SQRT", x)),
    "ReduceLogSum": _of(lambda g, x: x, _log, -np.inf),
    "ReduceLogSumExp": log_sum_exp,
    "ReduceMax": _reduction("REDUCE_MAX", -np.inf),
    "ReduceMean": _reduction("MEAN", np.nan),
    "ReduceMin": _reduction("REDUCE_MIN", np.inf),
    "ReduceProd": _reduction("REDUCE_PROD", 1),
    "ReduceSum": _reduction("SUM", 0),
    "ReduceSumSquare": _of(lambda g, x: g.binary("MUL", x, x)),
}
