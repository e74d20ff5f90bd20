"""Gemm and MatMul: FULLY_CONNECTED where the right factor is a constant matrix, else BATCH_MATMUL."""

from __future__ import annotations

import numpy as np

from twinfer.converter.onnx.emitter import Emitter
from twinfer.converter.onnx.node import OnnxNode
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Tensor


def gemm(g: Emitter, node: OnnxNode) -> Tensor:
    """alpha * A' * B' + beta * C; factors other than one go into the constants where there are any."""
    a, b, c = node.input(0), node.input(1), node.optional(2)
    alpha, beta = float(node.attribute("alpha", 1.0)), float(node.attribute("beta", 1.0))
    a = g.transpose(a, (1, 0)) if node.attribute("transA", 0) else a
    weights = b if node.attribute("transB", 0) else g.transpose(b, (1, 0))
    c = None if c is None or beta == 0 else _times(g, c, beta)
    bias = None if c is None else _bias(g, c, weights.shape[0])
    if weights.data is not None:
        y = fully_connected(g, a, _times(g, weights, alpha), bias)
    else:
        bias, y = None, _times(g, _product(g, a, b, bool(node.attribute("transB", 0))), alpha)
    return y if c is None or bias is not None else g.binary("ADD", y, c)


def _times(g: Emitter, x: Tensor, factor: float) -> Tensor:
    if factor == 1:
        return x
    value = np.array(factor, x.dtype)
    if x.data is None:
        return g.binary("MUL", x, value)
    return Tensor(x.name, x.type, x.shape, data=np.asarray(x.data * value))


def _bias(g: Emitter, c: Tensor, channels: int) -> Tensor | None:
    """The addend as FULLY_CONNECTED takes it: a constant, one number an output channel; None if it is otherwise."""
    if c.data is None or c.size not in (1, channels) or (c.size > 1 and c.shape[-1] != channels):
        return None
    if c.size == channels:
        return g.reshape(c, (channels,))
    return Tensor(c.name, c.type, (channels,), data=np.full(channels, c.data.reshape(-1)[0]))


def fully_connected(g: Emitter, x: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """Over the last dimension of x [..., depth] with constant weights [out, depth]."""
    out, depth = weights.shape
    if x.shape[-1] != depth:
        raise ModelError(f"{x} and weights of depth {depth} cannot be multiplied")
    addend = np.zeros(out, np.float32) if bias is None else bias
    return g.emit("FULLY_CONNECTED", [x, weights, addend], (*x.shape[:-1], out), keep_num_dims=len(x.shape) > 2)


def _product(g: Emitter, a: Tensor, b: Tensor, adjoint: bool = False) -> Tensor:
    rows, columns = a.shape[-2], b.shape[-2 if adjoint else -1]
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), rows, columns)
    return g.emit("BATCH_MATMUL", [a, b], shape, adj_x=False, adj_y=adjoint)


def matmul(g: Emitter, node: OnnxNode) -> Tensor:
    """As numpy.matmul: vectors are matrices of one row or column, which is dropped from the result."""
    a, b = node.input(0), node.input(1)
    if not a.shape or not b.shape:
        raise ModelError(f"{node}: {a if not a.shape else b} is a scalar")
    left = g.reshape(a, (1, *a.shape)) if len(a.shape) == 1 else a
    right = g.reshape(b, (*b.shape, 1)) if len(b.shape) == 1 else b
    if left.shape[-1] != right.shape[-2]:
        raise ModelError(f"{node}: {a} and {b} cannot be multiplied")
    if right.data is not None and len(right.shape) == 2:
        y = fully_connected(g, left, g.transpose(right, (1, 0)))
    else:
        y = _product(g, left, right)
    shape = y.shape[:-2] + y.shape[-2:-1] * (len(a.shape) > 1) + y.shape[-1:] * (len(b.shape) > 1)
    return g.reshape(y, shape)


IMPORTERS = {"Gemm": gemm, "MatMul": matmul}
