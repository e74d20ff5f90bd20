"""Element-wise arithmetic that TFLite has by another name, and activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from twinfer.converter.emit import functions
from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.onnx.node import OnnxNode
from twinfer.runtime.graph import Tensor

Importer = Callable[[Emitter, OnnxNode], Tensor]


def _unary(op: str) -> Importer:
    return lambda g, node: g.unary(op, node.input(0))


def _binary(op: str) -> Importer:
    return lambda g, node: g.binary(op, node.input(0), node.input(1))


def _compare(op: str) -> Importer:
    return lambda g, node: g.binary(op, node.input(0), node.input(1), type="BOOL")


def equal(g: Emitter, node: OnnxNode) -> Tensor:
    """EQUAL; with a constant infinity, whether x is at that end of float32, which TFLite's operators limit it to."""
    for x, y in (node.inputs, node.inputs[::-1]):
        if x is not None and y is not None and y.data is not None and y.type == "FLOAT32":
            for sign, op in ((-1, "LESS_EQUAL"), (1, "GREATER_EQUAL")):
                if y.size and (y.data == sign * np.inf).all():
                    most = np.full(y.shape, sign * np.finfo(np.float32).max, np.float32)
                    return g.binary(op, x, most, type="BOOL")
    return _compare("EQUAL")(g, node)


def _variadic(op: str) -> Importer:
    return lambda g, node: reduce(lambda a, b: g.binary(op, a, b), (node.input(i) for i in range(len(node.inputs))))


def power(g: Emitter, node: OnnxNode) -> Tensor:
    """POW; squares and square roots, which are common, by exact operators."""
    x, y = node.input(0), node.input(1)
    scalar = y.size == 1 and len(y.shape) <= len(x.shape)
    exponent = float(y.data.reshape(-1)[0]) if y.data is not None and scalar else 1.0
    if exponent == 2:
        return g.binary("MUL", x, x)
    if exponent == 0.5 and x.type == "FLOAT32":
        return g.unary("SQRT", x)
    node.need(x.type in ("FLOAT32", "INT32"), f"powers in {x.type}; cast the base to float")
    if y.type == x.type:
        return g.binary("POW", x, y)
    exact = x.type == "FLOAT32" or y.type in ("INT8", "INT16", "INT32", "UINT8")
    node.need(exact, f"{x.type} to a power in {y.type} has no exact form; cast the base to float")
    return g.binary("POW", x, g.cast(y, x.type))


def mean(g: Emitter, node: OnnxNode) -> Tensor:
    return g.binary("MUL", _variadic("ADD")(g, node), np.array(1 / len(node.inputs), np.float32))


def where(g: Emitter, node: OnnxNode) -> Tensor:
    condition, x, y = (node.input(i) for i in range(3))
    shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
    return g.emit("SELECT_V2", [condition, x, y], shape, x.type)


UNARY = {
    "Sqrt": "SQRT", "Exp": "EXP", "Abs": "ABS", "Neg": "NEG", "Log": "LOG", "Floor": "FLOOR", "Ceil": "CEIL",
    "Round": "ROUND", "Sin": "SIN", "Cos": "COS", "Not": "LOGICAL_NOT", "Sign": "SIGN",
    "Sigmoid": "LOGISTIC", "Tanh": "TANH", "HardSwish": "HARD_SWISH", "Relu": "RELU",
}  # fmt: skip
BINARY = {"Add": "ADD", "Sub": "SUB", "Mul": "MUL", "Div": "DIV", "And": "LOGICAL_AND", "Or": "LOGICAL_OR"}
COMPARE = {
    "Less": "LESS", "LessOrEqual": "LESS_EQUAL", "Greater": "GREATER",
    "GreaterOrEqual": "GREATER_EQUAL",
}  # fmt: skip
VARIADIC = {"Min": "MINIMUM", "Max": "MAXIMUM", "Sum": "ADD"}


def clip(g: Emitter, node: OnnxNode) -> Tensor:
    x, low, high = node.input(0), node.optional(1), node.optional(2)
    limits = _limit(low, -math.inf), _limit(high, math.inf)
    if x.type == "FLOAT32" and limits in functions.CLAMPS:
        return g.unary(functions.CLAMPS[limits], x)
    y = x if low is None or limits[0] == -math.inf else g.binary("MAXIMUM", x, low)
    return y if high is None or limits[1] == math.inf else g.binary("MINIMUM", y, high)


def _limit(value: Tensor | None, default: float) -> float | None:
    if value is None:
        return default
    return None if value.data is None else float(value.data.reshape(-1)[0])


def leaky_relu(g: Emitter, node: OnnxNode) -> Tensor:
    return g.unary("LEAKY_RELU", node.input(0), alpha=float(node.attribute("alpha", 0.01)))


def hard_sigmoid(g: Emitter, node: OnnxNode) -> Tensor:
    alpha, beta = float(node.attribute("alpha", 0.2)), float(node.attribute("beta", 0.5))
    return functions.hard_sigmoid(g, node.input(0), alpha, beta)


def prelu(g: Emitter, node: OnnxNode) -> Tensor:
    """Slopes that broadcast to x or, as before opset 7, one for each channel, which is dimension 1."""
    x, slope = node.input(0), node.input(1)
    if len(slope.shape) == 1 and slope.size > 1 and slope.size == x.shape[1] != x.shape[-1]:
        slope = g.reshape(slope, (slope.size, *[1] * (len(x.shape) - 2)))
    return g.emit("PRELU", [x, slope], x.shape)


def selu(g: Emitter, node: OnnxNode) -> Tensor:
    alpha, gamma = node.attribute("alpha", functions.SELU_ALPHA), node.attribute("gamma", functions.SELU_GAMMA)
    return functions.selu(g, node.input(0), float(alpha), float(gamma))


def swish(g: Emitter, node: OnnxNode) -> Tensor:
    """x * sigmoid(alpha * x)."""
    x, alpha = node.input(0), float(node.attribute("alpha", 1.0))
    inner = x if alpha == 1 else g.binary("MUL", x, functions.number(alpha))
    return g.binary("MUL", x, g.unary("LOGISTIC", inner))


def _normalised(op: str, **options: Any) -> Callable[[Emitter, OnnxNode], Tensor]:
    """Over one axis; before opset 13 over all dimensions from the axis on."""

    def run(g: Emitter, node: OnnxNode) -> Tensor:
        x = node.input(0)
        if node.opset < 13:
            axis = node.axis(1)
            flat = g.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
            return g.reshape(g.unary(op, flat, **options), x.shape)
        return functions.along(g, op, x, node.axis(-1), **options)

    return run


IMPORTERS: dict[str, Importer] = {
    **{name: _unary(op) for name, op in UNARY.items()},
    **{name: _binary(op) for name, op in BINARY.items()},
    **{name: _compare(op) for name, op in COMPARE.items()},
    "Equal": equal,
    **{name: _variadic(op) for name, op in VARIADIC.items()},
    "IsNaN": lambda g, node: g.binary("NOT_EQUAL", node.input(0), node.input(0), type="BOOL"),  # NaN differs from NaN
    "Mean": mean,
    "Pow": power,
    "Reciprocal": lambda g, node: g.binary("DIV", np.array(1, np.float32), node.input(0)),
    "Where": where,
    "Celu": lambda g, node: functions.celu(g, node.input(0), float(node.attribute("alpha", 1.0))),
    "Clip": clip,
    "Elu": lambda g, node: functions.elu(g, node.input(0), float(node.attribute("alpha", 1.0))),
    "Gelu": lambda g, node: g.unary("GELU", node.input(0), approximate=node.attribute("approximate", "none") == "tanh"),
    "HardSigmoid": hard_sigmoid,
    "LeakyRelu": leaky_relu,
    "LogSoftmax": _normalised("LOG_SOFTMAX"),
    "PRelu": prelu,
    "Selu": selu,
    "Softmax": _normalised("SOFTMAX", beta=1.0),
    "Mish": lambda g, node: functions.mish(g, node.input(0)),
    "Softplus": lambda g, node: functions.softplus(g, node.input(0)),
    "Softsign": lambda g, node: functions.softsign(g, node.input(0)),
    "Swish": swish,
}
