"""Normalisation, and what scales inputs before a net sees them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.emit.emitter import Emitter, Shape
from twinfer.converter.emit.functions import affine, along, mean, normalize, number, scale_and_shift
from twinfer.converter.keras.call import Call, array, dimensions
from twinfer.runtime.graph import Tensor


def batch_normalization(g: Emitter, call: Call) -> Tensor:
    """By the statistics of the training data: two operators over constants."""
    x, axis = call.input(), int(call.layer.axis) % len(call.input().shape)
    variance, middle = (call.weight(name).astype(np.float64) for name in ("moving_variance", "moving_mean"))
    gamma, beta = call.optional("gamma"), call.optional("beta")
    factor = (1.0 if gamma is None else gamma) / np.sqrt(variance + float(call.layer.epsilon))
    return affine(g, x, factor, (0.0 if beta is None else beta) - middle * factor, axis)


def _along(x: Tensor, axes: Shape, value: NDArray[np.float32] | None) -> NDArray[np.float32] | None:
    """A weight over some dimensions as it broadcasts."""
    return None if value is None else value.reshape([n if d in axes else 1 for d, n in enumerate(x.shape)])


def layer_normalization(g: Emitter, call: Call) -> Tensor:
    """``rms_scaling`` divides by the deviation without subtracting the mean."""
    x, own = call.input(), call.layer
    axes = dimensions(own.axis, x)
    weights = [_along(x, axes, call.optional(name)) for name in ("gamma", "beta")]
    y, _, factor = normalize(g, x, axes, float(own.epsilon))
    return scale_and_shift(g, g.binary("MUL", x, factor) if getattr(own, "rms_scaling", False) else y, *weights)


def rms_normalization(g: Emitter, call: Call) -> Tensor:
    x, own = call.input(), call.layer
    axes = dimensions(own.axis, x)
    last = axes == tuple(range(len(x.shape) - len(axes), len(x.shape)))
    call.need(last, f"axis {own.axis}, for which Keras's backends differ; use the last dimensions")
    power = mean(g, g.binary("MUL", x, x), axes)
    y = g.binary("MUL", x, g.unary("RSQRT", g.binary("ADD", power, number(float(own.epsilon)))))
    return scale_and_shift(g, y, _along(x, axes, call.optional("scale")), None)


def group_normalization(g: Emitter, call: Call) -> Tensor:
    """Normalises groups of channels over all other dimensions but the first."""
    own, given = call.layer, call.input()

    def run(x: Tensor) -> Tensor:
        split = g.reshape(x, (x.shape[0], math.prod(x.shape[1:-1]), int(own.groups), x.shape[-1] // int(own.groups)))
        y = g.reshape(normalize(g, split, (1, 3), float(own.epsilon))[0], x.shape)
        return scale_and_shift(g, y, call.optional("gamma"), call.optional("beta"))

    return g.along_last(given, dimensions(own.axis, given), run)


def rescaling(g: Emitter, call: Call) -> Tensor:
    factor, offset = (np.asarray(v, np.float32) for v in (call.layer.scale, call.layer.offset))
    y = g.binary("MUL", g.cast(call.input(), "FLOAT32"), factor)
    return g.binary("ADD", y, offset) if offset.any() else y


def normalization(g: Emitter, call: Call) -> Tensor:
    """(x - mean) / the standard deviation, or back, as one factor and one addend."""
    own, x = call.layer, g.cast(call.input(), "FLOAT32")
    call.need(own.mean is not None, "it has no statistics yet; call adapt(data), or give mean and variance")
    middle, variance = (array(v, call.name).astype(np.float64) for v in (own.mean, own.variance))
    deviation = np.maximum(np.sqrt(variance), 1e-7)
    if own.invert:
        return scale_and_shift(g, x, deviation.astype(np.float32), middle.astype(np.float32))
    return scale_and_shift(g, x, (1 / deviation).astype(np.float32), (-middle / deviation).astype(np.float32))


IMPORTERS = {
    "BatchNormalization": batch_normalization,
    "GroupNormalization": group_normalization,
    "LayerNormalization": layer_normalization,
    "Normalization": normalization,
    "Rescaling": rescaling,
    "RMSNormalization": rms_normalization,
    "UnitNormalization": lambda g, call: along(  # x / sqrt(sum of squares)
        g, "L2_NORMALIZATION", call.input(), *dimensions(call.layer.axis, call.input())
    ),
}
