"""Normalisation, and what scales inputs before a net sees them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.emit.activation import number
from twinfer.converter.emit.emitter import Emitter, Shape
from twinfer.converter.emit.normalize import affine, mean, normalized, scaled
from twinfer.converter.keras.call import Call, array
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
    x, own = call.input(), call.layer
    given = own.axis if isinstance(own.axis, list | tuple) else [own.axis]
    axes = tuple(sorted(int(a) % len(x.shape) for a in given))
    weights = [_along(x, axes, call.optional(name)) for name in ("gamma", "beta")]
    if getattr(own, "rms_scaling", False):
        return scaled(g, _by_root_mean_square(g, x, axes, float(own.epsilon)), weights[0], None)
    return scaled(g, normalized(g, x, axes, float(own.epsilon))[0], *weights)


def rms_normalization(g: Emitter, call: Call) -> Tensor:
    x, own = call.input(), call.layer
    given = own.axis if isinstance(own.axis, list | tuple) else [own.axis]
    axes = tuple(sorted(int(a) % len(x.shape) for a in given))
    return scaled(
        g, _by_root_mean_square(g, x, axes, float(own.epsilon)), _along(x, axes, call.optional("scale")), None
    )


def _by_root_mean_square(g: Emitter, x: Tensor, axes: Shape, epsilon: float) -> Tensor:
    power = mean(g, g.binary("MUL", x, x), axes)
    return g.binary("MUL", x, g.unary("RSQRT", g.binary("ADD", power, number(epsilon))))


def group_normalization(g: Emitter, call: Call) -> Tensor:
    """Normalises groups of channels (the last dimension) over all other dimensions but the first."""
    x, own = call.input(), call.layer
    call.need(int(own.axis) % len(x.shape) == len(x.shape) - 1, "an axis that is not the last; build it channels_last")
    groups = x.shape[-1] if own.groups == -1 else int(own.groups)
    split = g.reshape(x, (x.shape[0], math.prod(x.shape[1:-1]), groups, x.shape[-1] // groups))
    y = g.reshape(normalized(g, split, (1, 3), float(own.epsilon))[0], x.shape)
    return scaled(g, y, call.optional("gamma"), call.optional("beta"))


def unit_normalization(g: Emitter, call: Call) -> Tensor:
    """x / sqrt(sum of squares); along the last dimension that is L2_NORMALIZATION."""
    axis = call.layer.axis[0] if isinstance(call.layer.axis, list | tuple) else call.layer.axis
    several = isinstance(call.layer.axis, list | tuple) and len(call.layer.axis) > 1
    x = call.input()
    call.need(not several and axis % len(x.shape) == len(x.shape) - 1, "an axis that is not the last")
    return g.unary("L2_NORMALIZATION", x)


def _floats(g: Emitter, x: Tensor) -> Tensor:
    if x.type == "FLOAT32":
        return x
    return g.emit("CAST", [x], x.shape, "FLOAT32", in_data_type=x.type, out_data_type="FLOAT32")


def rescaling(g: Emitter, call: Call) -> Tensor:
    factor, offset = (np.asarray(v, np.float32) for v in (call.layer.scale, call.layer.offset))
    y = g.binary("MUL", _floats(g, call.input()), factor)
    return g.binary("ADD", y, offset) if offset.any() else y


def normalization(g: Emitter, call: Call) -> Tensor:
    """(x - mean) / the standard deviation, or back, as one factor and one addend."""
    own, x = call.layer, _floats(g, call.input())
    call.need(own.mean is not None, "it has no statistics yet; call adapt(data), or give mean and variance")
    middle, variance = (_statistic(v, call.name) for v in (own.mean, own.variance))
    deviation = np.maximum(np.sqrt(variance), 1e-7)
    if own.invert:
        return scaled(g, x, deviation.astype(np.float32), middle.astype(np.float32))
    return scaled(g, x, (1 / deviation).astype(np.float32), (-middle / deviation).astype(np.float32))


def _statistic(value: Any, name: str) -> NDArray[np.float64]:
    return array(value, name).astype(np.float64)


IMPORTERS = {
    "BatchNormalization": batch_normalization,
    "GroupNormalization": group_normalization,
    "LayerNormalization": layer_normalization,
    "Normalization": normalization,
    "Rescaling": rescaling,
    "RMSNormalization": rms_normalization,
    "UnitNormalization": unit_normalization,
}
