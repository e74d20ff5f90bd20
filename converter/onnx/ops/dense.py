"""Gemm and MatMul: FULLY_CONNECTED where the right factor is a constant matrix, else BATCH_MATMUL."""

from __future__ import annotations

import numpy as np

from twinfer.converter.emit import products
from twinfer.converter.emit.emitter import Emitter, constant
from twinfer.converter.emit.products import fully_connected, product
from twinfer.converter.onnx.node import OnnxNode, positive
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
        bias, y = None, _times(g, product(g, a, b, bool(node.attribute("transB", 0))), alpha)
    return y if c is None or bias is not None else g.binary("ADD", y, c)


def _times(g: Emitter, x: Tensor, factor: float) -> Tensor:
    if factor == 1:
        return x
    value = np.array(factor, x.dtype)
    if x.data is None:
        return g.binary("MUL", x, value)
    return Tensor(x.name, x.type, x.shape, data=np.asarray(x.data * value))


def _bias(g: Emitter, c: Tensor, channels: int) -> Tensor | None:
    """The addend as FULLY_CONNECTED takes it: a constant with one number per output channel; else None."""
    if c.data is None or c.size not in (1, channels) or (c.size > 1 and c.shape[-1] != channels):
        return None
    if c.size == channels:
        return g.reshape(c, (channels,))
    return Tensor(c.name, c.type, (channels,), data=np.full(channels, c.data.reshape(-1)[0]))


def matmul(g: Emitter, node: OnnxNode) -> Tensor:
    return products.matmul(g, node.input(0), node.input(1))


def einsum(g: Emitter, node: OnnxNode) -> Tensor:
    return products.einsum(g, str(node.attribute("equation", "")), [node.input(i) for i in range(len(node.inputs))])


def cum_sum(g: Emitter, node: OnnxNode) -> Tensor:
    """Sums up to every element, as a product with a triangle of ones."""
    x, given = node.input(0), node.constant(1)
    node.need(x.type == "FLOAT32", f"sums of {x.type}; cast to float")
    axis = positive(node, int(np.asarray(given).reshape(-1)[0]), len(x.shape))
    g.budget.take(4 * x.shape[axis] ** 2, "a triangle of ones")
    ones = np.triu(np.ones((x.shape[axis],) * 2, np.float32), 1 if node.attribute("exclusive", 0) else 0)
    ones = ones.T if node.attribute("reverse", 0) else ones
    return g.along_last(x, [axis], lambda rows: products.matmul(g, rows, constant(ones)))


IMPORTERS = {"CumSum": cum_sum, "Einsum": einsum, "Gemm": gemm, "MatMul": matmul}
