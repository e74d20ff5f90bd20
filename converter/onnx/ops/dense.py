"""Gemm and MatMul: FULLY_CONNECTED where the right factor is a constant matrix, else BATCH_MATMUL. Sums and products
along an axis, and determinants."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from twinfer.converter.emit import arithmetic, functions, products
from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.emit.products import fully_connected, product
from twinfer.converter.onnx.node import OnnxNode, positive
from twinfer.runtime.graph import Tensor

#: Rows of the largest matrix that has a determinant: the products are as many as permutations.
LARGEST = 6


def gemm(g: Emitter, node: OnnxNode) -> Tensor:
    """alpha * A' * B' + beta * C; factors other than one go into the constants where there are any."""
    a, b, c = node.input(0), node.input(1), node.optional(2)
    alpha, beta = float(node.attribute("alpha", 1.0)), float(node.attribute("beta", 1.0))
    a = g.transpose(a, (1, 0)) if node.attribute("transA", 0) else a
    weights = b if node.attribute("transB", 0) else g.transpose(b, (1, 0))
    c = None if c is None or beta == 0 else _times(g, c, beta)
    bias = None if c is None else _bias(g, c, weights.shape[0])
    if weights.data is not None and a.type == "FLOAT32":
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


def _axis(node: OnnxNode) -> int:
    return positive(node, int(np.asarray(node.constant(1)).reshape(-1)[0]), len(node.input(0).shape))


def cum_sum(g: Emitter, node: OnnxNode) -> Tensor:
    x, axis = node.input(0), np.array(_axis(node), np.int32)
    exclusive, reverse = (bool(node.attribute(name, 0)) for name in ("exclusive", "reverse"))
    wide = g.cast(x, "INT32" if x.type in ("INT8", "INT16", "UINT8") else x.type)
    return g.cast(g.emit("CUMSUM", [wide, axis], x.shape, exclusive=exclusive, reverse=reverse), x.type)


def cum_prod(g: Emitter, node: OnnxNode) -> Tensor:
    x, axis = node.input(0), _axis(node)
    x = g.flip(x, axis) if node.attribute("reverse", 0) else x
    y = arithmetic.cumulative_product(g, x, axis)
    y = arithmetic.behind(g, y, axis, 1, 1) if node.attribute("exclusive", 0) else y
    return g.flip(y, axis) if node.attribute("reverse", 0) else y


def det(g: Emitter, node: OnnxNode) -> Tensor:
    """By Leibniz: the sum over all permutations of products of one element of each row, with their signs."""
    x, n = node.input(0), node.input(0).shape[-1]
    node.need(n <= LARGEST, f"of {n} x {n} matrices, of which it has {LARGEST} x {LARGEST} and smaller ones")
    orders = np.array(list(permutations(range(n)))).reshape(-1, n)
    signs = np.linalg.det(np.eye(n)[orders]).round().astype(np.float32)
    places = np.asarray(orders + n * np.arange(n), np.int32)
    rank = len(x.shape) - 2
    factors = g.gather(g.reshape(x, (*x.shape[:-2], n * n)), places, rank)
    products = functions.reduced(g, "REDUCE_PROD", factors, (rank + 1,), False)
    return functions.reduced(g, "SUM", g.binary("MUL", products, signs), (rank,), False)


IMPORTERS = {"CumProd": cum_prod, "CumSum": cum_sum, "Det": det, "Einsum": einsum, "Gemm": gemm, "MatMul": matmul}
