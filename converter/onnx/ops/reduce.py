"""Reductions and ArgMax."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twinfer.converter.emit.emitter import NCHW, NHWC, Emitter
from twinfer.converter.onnx.node import OnnxNode, Shape, positive
from twinfer.runtime.graph import Tensor

#: Operators for the extremes of truth values.
OF_BOOL = {"REDUCE_MAX": "REDUCE_ANY", "REDUCE_MIN": "REDUCE_ALL"}


def _some(node: OnnxNode) -> Tensor:
    """What is reduced; refused if it has no elements."""
    x = node.input(0)
    node.need(x.size > 0, "reductions of nothing; give it elements")
    return x


def _axes(node: OnnxNode) -> Shape:
    """The reduced dimensions in order. If none are named: all, or none if the node says so."""
    rank = len(node.input(0).shape)
    axes = node.ints("axes", 1)
    if axes:
        return tuple(sorted({positive(node, axis, rank) for axis in axes}))
    return () if node.attribute("noop_with_empty_axes", 0) else tuple(range(rank))


def _reduction(op: str) -> Callable[[Emitter, OnnxNode], Tensor]:
    def run(g: Emitter, node: OnnxNode) -> Tensor:
        x, axes, keep = _some(node), _axes(node), bool(node.attribute("keepdims", 1))
        if not axes:
            return x
        if axes == (2, 3) and len(x.shape) == 4:  # global pooling: laid out as other operators over images
            y = reduced(g, op, g.transpose(x, NHWC), (1, 2), keep)
            return g.transpose(y, NCHW) if keep else y
        return reduced(g, op, x, axes, keep)

    return run


def reduced(g: Emitter, op: str, x: Tensor, axes: Shape, keep: bool) -> Tensor:
    g.computes(op, x.type)
    op = OF_BOOL.get(op, op) if x.type == "BOOL" else op
    shape = tuple(1 if d in axes else n for d, n in enumerate(x.shape) if keep or d not in axes)
    return g.emit(op, [x, np.array(axes, np.int32)], shape, keep_dims=keep)


def _of(before: Callable[[Emitter, Tensor], Tensor], after: str = "") -> Callable[[Emitter, OnnxNode], Tensor]:
    """The sum over ``before`` of every element, with the operator ``after`` behind it."""

    def run(g: Emitter, node: OnnxNode) -> Tensor:
        y = before(g, _some(node))
        y = reduced(g, "SUM", y, _axes(node), bool(node.attribute("keepdims", 1))) if _axes(node) else y
        return g.unary(after, y) if after else y

    return run


def log_sum_exp(g: Emitter, node: OnnxNode) -> Tensor:
    """log(sum(exp(x))) as max(x) + log(sum(exp(x - max(x)))), which does not overflow."""
    x, axes, keep = _some(node), _axes(node), bool(node.attribute("keepdims", 1))
    top = reduced(g, "REDUCE_MAX", x, axes, True)
    total = reduced(g, "SUM", g.unary("EXP", g.binary("SUB", x, top)), axes, True)
    y = g.binary("ADD", g.unary("LOG", total), top)
    return y if keep else g.reshape(y, [n for d, n in enumerate(y.shape) if d not in axes])


def _arg(op: str) -> Callable[[Emitter, OnnxNode], Tensor]:
    """The first index of the extreme along an axis; the last index is the first one in reversed order."""

    def run(g: Emitter, node: OnnxNode) -> Tensor:
        x, axis = _some(node), node.axis(0)
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


IMPORTERS = {
    "ArgMax": _arg("ARG_MAX"),
    "ArgMin": _arg("ARG_MIN"),
    "ReduceL1": _of(lambda g, x: g.unary("ABS", x)),
    "ReduceL2": _of(lambda g, x: g.binary("MUL", x, x), "SQRT"),
    "ReduceLogSum": _of(lambda g, x: x, "LOG"),
    "ReduceLogSumExp": log_sum_exp,
    "ReduceMax": _reduction("REDUCE_MAX"),
    "ReduceMean": _reduction("MEAN"),
    "ReduceMin": _reduction("REDUCE_MIN"),
    "ReduceProd": _reduction("REDUCE_PROD"),
    "ReduceSum": _reduction("SUM"),
    "ReduceSumSquare": _of(lambda g, x: g.binary("MUL", x, x)),
}
