"""Products with constant weights."""

from __future__ import annotations

import numpy as np

from twinfer.converter.emit.emitter import Emitter, constant
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Tensor


def fully_connected(g: Emitter, x: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """Over the last dimension of x [..., depth] with constant weights [out, depth]."""
    out, depth = weights.shape
    if x.shape[-1] != depth:
        raise ModelError(f"{x} and weights of depth {depth} cannot be multiplied")
    addend = np.zeros(out, np.float32) if bias is None else bias
    return g.emit("FULLY_CONNECTED", [x, weights, addend], (*x.shape[:-1], out), keep_num_dims=len(x.shape) > 2)


def product(g: Emitter, a: Tensor, b: Tensor, adjoint: bool = False) -> Tensor:
    """Matrices [..., rows, depth] times [..., depth, columns], or [..., columns, depth] if ``adjoint``."""
    rows, columns = a.shape[-2], b.shape[-2 if adjoint else -1]
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), rows, columns)
    return g.emit("BATCH_MATMUL", [a, b], shape, adj_x=False, adj_y=adjoint)


def matmul(g: Emitter, a: Tensor, b: Tensor) -> Tensor:
    """As numpy.matmul: vectors are matrices of one row or column, which is dropped from the result."""
    if not a.shape or not b.shape:
        raise ModelError(f"{a if not a.shape else b} is a scalar and cannot be multiplied as a matrix")
    left = g.reshape(a, (1, *a.shape)) if len(a.shape) == 1 else a
    right = g.reshape(b, (*b.shape, 1)) if len(b.shape) == 1 else b
    if left.shape[-1] != right.shape[-2]:
        raise ModelError(f"{a} and {b} cannot be multiplied")
    if right.data is not None and len(right.shape) == 2:
        y = fully_connected(g, left, g.transpose(right, (1, 0)))
    else:
        y = product(g, left, right)
    shape = y.shape[:-2] + y.shape[-2:-1] * (len(a.shape) > 1) + y.shape[-1:] * (len(b.shape) > 1)
    return g.reshape(y, shape)


def linear(g: Emitter, x: Tensor, kernel: np.ndarray, bias: np.ndarray | None) -> Tensor:
    """x [..., depth] times kernel [depth, out] plus bias [out]."""
    return fully_connected(g, x, constant(np.ascontiguousarray(kernel.T)), None if bias is None else constant(bias))
