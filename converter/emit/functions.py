"""Activations that TFLite has no operator for, or only for some arguments, and normalisation by mean and variance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from twinfer.converter.emit.emitter import Emitter, Operand, Shape
from twinfer.runtime.graph import Tensor

#: Limits that TFLite has an operator for.
CLAMPS = {(0.0, math.inf): "RELU", (0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1", (0.0, 1.0): "RELU_0_TO_1"}

#: Operators for the extremes of truth values.
OF_BOOL = {"REDUCE_MAX": "REDUCE_ANY", "REDUCE_MIN": "REDUCE_ALL"}

#: Source: Klambauer et al., Self-normalizing neural networks, 2017, as float32.
SELU_ALPHA, SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875


def number(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def clamp(g: Emitter, x: Tensor, low: float, high: float) -> Tensor:
    """Floats between two numbers, either of which may be infinite."""
    if (low, high) in CLAMPS:
        return g.unary(CLAMPS[low, high], x)
    x = x if low == -math.inf else g.binary("MAXIMUM", x, number(low))
    return x if high == math.inf else g.binary("MINIMUM", x, number(high))


def hard_sigmoid(g: Emitter, x: Tensor, alpha: float, beta: float) -> Tensor:
    """alpha * x + beta between 0 and 1."""
    line = g.binary("MUL", x, number(alpha))
    return g.unary("RELU_0_TO_1", g.binary("ADD", line, number(beta)))


def elu(g: Emitter, x: Tensor, alpha: float) -> Tensor:
    """TFLite's ELU has alpha 1; others are max(x, 0) + alpha * ELU(min(x, 0))."""
    if alpha == 1:
        return g.unary("ELU", x)
    below = g.unary("ELU", g.binary("MINIMUM", x, number(0)))
    return g.binary("ADD", g.unary("RELU", x), g.binary("MUL", below, number(alpha)))


def celu(g: Emitter, x: Tensor, alpha: float) -> Tensor:
    """max(x, 0) + alpha * ELU(min(x, 0) / alpha)."""
    if alpha == 1:
        return g.unary("ELU", x)
    below = g.binary("MUL", g.binary("MINIMUM", x, number(0)), number(1 / alpha))
    return g.binary("ADD", g.unary("RELU", x), g.binary("MUL", g.unary("ELU", below), number(alpha)))


def selu(g: Emitter, x: Tensor, alpha: float = SELU_ALPHA, gamma: float = SELU_GAMMA) -> Tensor:
    return g.binary("MUL", elu(g, x, alpha), number(gamma))


def softsign(g: Emitter, x: Tensor) -> Tensor:
    return g.binary("DIV", x, g.binary("ADD", g.unary("ABS", x), number(1)))


def softplus(g: Emitter, x: Tensor) -> Tensor:
    """log(1 + exp(x)) as max(x, 0) + log(1 + exp(-|x|)), which does not overflow."""
    small = g.unary("EXP", g.unary("NEG", g.unary("ABS", x)))
    return g.binary("ADD", g.unary("RELU", x), g.unary("LOG", g.binary("ADD", small, number(1))))


def mish(g: Emitter, x: Tensor) -> Tensor:
    """x * tanh(softplus(x))."""
    return g.binary("MUL", x, g.unary("TANH", softplus(g, x)))


def silu(g: Emitter, x: Tensor) -> Tensor:
    """x * sigmoid(x)."""
    return g.binary("MUL", x, g.unary("LOGISTIC", x))


def along(g: Emitter, op: str, x: Tensor, *axes: int, **options: Any) -> Tensor:
    """An operator that works along the last dimension (SOFTMAX, LOG_SOFTMAX, L2_NORMALIZATION), applied over the
    elements of these dimensions together."""
    if not x.shape:
        return g.unary(op, x, **options)

    def run(moved: Tensor) -> Tensor:
        rows = moved.shape[: len(moved.shape) - len(axes)]
        flat = g.reshape(moved, (*rows, math.prod(moved.shape[len(rows) :])))
        return g.reshape(g.unary(op, flat, **options), moved.shape)

    return g.along_last(x, axes, run)


def reduced_shape(shape: Shape, axes: Shape, keep: bool) -> Shape:
    return tuple(1 if d in axes else n for d, n in enumerate(shape) if keep or d not in axes)


def reduced(g: Emitter, op: str, x: Tensor, axes: Shape, keep: bool) -> Tensor:
    """A reduction (SUM, MEAN, REDUCE_MAX, …) of any type, extremes of truth values by REDUCE_ANY and REDUCE_ALL. The
    reduced dimensions go behind the others where both alternate more often than kernels take."""
    if not g.takes(op, x.type):
        return g.cast(reduced(g, op, g.cast(x, "INT32"), axes, keep), x.type)
    op = OF_BOOL.get(op, op) if x.type == "BOOL" else op
    if len([d for d in axes if d - 1 not in axes]) > 3:
        kept = [d for d in range(len(x.shape)) if d not in axes]
        moved, last = g.transpose(x, [*kept, *axes]), tuple(range(len(kept), len(x.shape)))
        return g.reshape(reduced(g, op, moved, last, False), reduced_shape(x.shape, axes, keep))
    return g.emit(op, [x, np.array(axes, np.int32)], reduced_shape(x.shape, axes, keep), keep_dims=keep)


def mean(g: Emitter, x: Tensor, axes: Shape) -> Tensor:
    shape = tuple(1 if d in axes else n for d, n in enumerate(x.shape))
    return g.emit("MEAN", [x, np.array(axes, np.int32)], shape, keep_dims=True)


def moments(g: Emitter, x: Tensor, axes: Shape) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, x - mean, and the variance."""
    middle = mean(g, x, axes)
    rest = g.binary("SUB", x, middle)
    return middle, rest, mean(g, g.binary("MUL", rest, rest), axes)


def normalize(g: Emitter, x: Tensor, axes: Shape, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(variance + epsilon) over these dimensions, the mean, and 1 / sqrt(variance + epsilon)."""
    middle, rest, variance = moments(g, x, axes)
    factor = g.unary("RSQRT", g.binary("ADD", variance, number(epsilon)))
    return g.binary("MUL", rest, factor), middle, factor


def scale_and_shift(g: Emitter, x: Tensor, scale: Operand, bias: Operand) -> Tensor:
    """x * scale + bias; either may be absent."""
    y = x if scale is None else g.binary("MUL", x, scale)
    return y if bias is None else g.binary("ADD", y, bias)


def affine(g: Emitter, x: Tensor, factor: np.ndarray, offset: np.ndarray, axis: int) -> Tensor:
    """x * factor + offset, one number per element of the axis: what batch normalisation comes to when a model runs."""
    shape = [-1 if i == axis else 1 for i in range(len(x.shape))]
    return scale_and_shift(g, x, *(v.astype(np.float32).reshape(shape) for v in (factor, offset)))
