"""Normalisation by mean and variance of the input itself."""

from __future__ import annotations

import numpy as np

from twinfer.converter.emit.activation import number
from twinfer.converter.emit.emitter import Emitter, Operand, Shape
from twinfer.runtime.graph import Tensor


def mean(g: Emitter, x: Tensor, axes: Shape) -> Tensor:
    """Over these dimensions, which stay as ones."""
    shape = tuple(1 if d in axes else n for d, n in enumerate(x.shape))
    return g.emit("MEAN", [x, np.array(axes, np.int32)], shape, keep_dims=True)


def moments(g: Emitter, x: Tensor, axes: Shape) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, x - mean, and the variance."""
    middle = mean(g, x, axes)
    rest = g.binary("SUB", x, middle)
    return middle, rest, mean(g, g.binary("MUL", rest, rest), axes)


def normalized(g: Emitter, x: Tensor, axes: Shape, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(variance + epsilon) over these dimensions, the mean, and 1 / sqrt(variance + epsilon)."""
    middle, rest, variance = moments(g, x, axes)
    factor = g.unary("RSQRT", g.binary("ADD", variance, number(epsilon)))
    return g.binary("MUL", rest, factor), middle, factor


def scaled(g: Emitter, x: Tensor, scale: Operand, bias: Operand) -> Tensor:
    """x * scale + bias; either may be absent."""
    y = x if scale is None else g.binary("MUL", x, scale)
    return y if bias is None else g.binary("ADD", y, bias)


def affine(g: Emitter, x: Tensor, factor: np.ndarray, offset: np.ndarray, axis: int) -> Tensor:
    """x * factor + offset, one number per element of the axis: what batch normalisation comes to when a model runs."""
    shape = [-1 if i == axis else 1 for i in range(len(x.shape))]
    return scaled(g, x, *(v.astype(np.float32).reshape(shape) for v in (factor, offset)))
