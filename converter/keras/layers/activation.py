"""Activations, as layers, as functions of other layers, and as operations of keras.ops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from twinfer.converter.emit import functions
from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.emit.functions import along, clamp, number
from twinfer.converter.keras.call import Call, as_tensor, dimensions
from twinfer.runtime.graph import Tensor

Function = Callable[[Emitter, Tensor], Tensor]


def relu(g: Emitter, x: Tensor, slope: float = 0.0, top: float | None = None, threshold: float = 0.0) -> Tensor:
    """x from the threshold up to ``top``; slope * (x - threshold) below the threshold."""
    top = math.inf if top is None else top
    if not slope and not threshold:
        return clamp(g, x, 0.0, top)
    if threshold:  # x where it is beyond the threshold, else 0
        inside = g.binary("GREATER", x, number(threshold), "BOOL")
        above = g.emit("SELECT_V2", [inside, x, number(0)], x.shape, x.type)
    else:
        above = g.unary("RELU", x)
    above = above if top == math.inf else g.binary("MINIMUM", above, number(top))
    if not slope:
        return above
    if not threshold and top == math.inf:
        return g.unary("LEAKY_RELU", x, alpha=slope)
    below = g.binary("MINIMUM", g.binary("SUB", x, number(threshold)) if threshold else x, number(0))
    return g.binary("ADD", above, g.binary("MUL", below, number(slope)))


def _plain(op: str) -> Function:
    return lambda g, x: g.unary(op, x)


def gelu(g: Emitter, x: Tensor, approximate: bool = False) -> Tensor:
    return g.unary("GELU", x, approximate=bool(approximate))


def softmax(g: Emitter, x: Tensor, axis: Any = -1) -> Tensor:
    return along(g, "SOFTMAX", x, *dimensions(axis, x), beta=1.0)


def masked_softmax(g: Emitter, x: Tensor, axis: Any, mask: Tensor, zeros: bool = True) -> Tensor:
    """Over what a mask (BOOL, broadcast to x) shows. Rows that are hidden whole become zeros, or equal shares."""
    y = softmax(g, g.emit("SELECT_V2", [mask, x, number(-1e9)], x.shape, x.type), axis)
    return g.emit("SELECT_V2", [mask, y, number(0)], x.shape, x.type) if zeros else y


def log_softmax(g: Emitter, x: Tensor, axis: Any = -1) -> Tensor:
    return along(g, "LOG_SOFTMAX", x, *dimensions(axis, x))


#: keras.activations by name, with their arguments' defaults.
FUNCTIONS: dict[str, Function] = {
    "celu": lambda g, x: functions.celu(g, x, 1.0),
    "elu": lambda g, x: functions.elu(g, x, 1.0),
    "exponential": _plain("EXP"),
    "gelu": gelu,
    "hard_sigmoid": lambda g, x: functions.hard_sigmoid(g, x, 1 / 6, 0.5),
    "hard_silu": _plain("HARD_SWISH"),
    "hard_tanh": lambda g, x: clamp(g, x, -1.0, 1.0),
    "leaky_relu": lambda g, x: g.unary("LEAKY_RELU", x, alpha=0.2),
    "linear": lambda g, x: x,
    "log_sigmoid": lambda g, x: g.unary("NEG", functions.softplus(g, g.unary("NEG", x))),
    "log_softmax": log_softmax,
    "mish": functions.mish,
    "relu": relu,
    "relu6": _plain("RELU6"),
    "selu": functions.selu,
    "sigmoid": _plain("LOGISTIC"),
    "silu": functions.silu,
    "softmax": softmax,
    "softplus": functions.softplus,
    "softsign": functions.softsign,
    "tanh": _plain("TANH"),
    "tanh_shrink": lambda g, x: g.binary("SUB", x, g.unary("TANH", x)),
}


def relu_layer(g: Emitter, call: Call) -> Tensor:
    own = call.layer
    top = None if own.max_value is None else float(own.max_value)
    return relu(g, call.input(), float(own.negative_slope), top, float(own.threshold))


def softmax_layer(g: Emitter, call: Call) -> Tensor:
    x, mask = call.input(), call.argument(1, "mask")
    if mask is None:
        return softmax(g, x, call.layer.axis)
    shown = as_tensor(g, mask)
    shown = shown if shown.type == "BOOL" else g.binary("GREATER", shown, np.array(0.5, shown.dtype), "BOOL")
    return masked_softmax(g, x, call.layer.axis, shown)


def _operation(function: Callable[..., Tensor], *names: str) -> Callable[[Emitter, Call], Tensor]:
    """The importer of a keras.ops operation, whose arguments are its attributes."""
    return lambda g, call: function(g, call.input(), *(getattr(call.layer, name) for name in names))


OPERATIONS = {
    "ops.Celu": _operation(functions.celu, "alpha"),
    "ops.Elu": _operation(functions.elu, "alpha"),
    "ops.Gelu": _operation(gelu, "approximate"),
    "ops.LeakyRelu": _operation(relu, "negative_slope"),
    "ops.LogSoftmax": _operation(log_softmax, "axis"),
    "ops.Softmax": _operation(softmax, "axis"),
}
for _name in (
    *("hard_sigmoid", "hard_silu", "hard_tanh", "log_sigmoid", "relu", "relu6", "selu", "sigmoid", "silu", "softplus"),
    *("softsign", "tanh_shrink", "tanh"),
):
    OPERATIONS[f"ops.{_name.title().replace('_', '')}"] = _operation(FUNCTIONS[_name])

IMPORTERS: dict[str, Callable[[Emitter, Call], Tensor]] = {
    **OPERATIONS,
    "ops.ReLU": relu_layer,
    "Activation": lambda g, call: call.activated(call.input()),
    "ELU": lambda g, call: functions.elu(g, call.input(), float(call.layer.alpha)),
    "LeakyReLU": lambda g, call: g.unary("LEAKY_RELU", call.input(), alpha=float(call.layer.negative_slope)),
    "PReLU": lambda g, call: g.emit("PRELU", [call.input(), call.weight("alpha")], call.input().shape),
    "ReLU": relu_layer,
    "Softmax": softmax_layer,
}
