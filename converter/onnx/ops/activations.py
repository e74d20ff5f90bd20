"""Activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.converter.emit import arithmetic, functions
from twinfer.converter.emit.emitter import Emitter, Operand
from twinfer.converter.onnx.node import OnnxNode
from twinfer.converter.onnx.ops.elementwise import Importer, of_one, unary
from twinfer.runtime.graph import Tensor


def clip(g: Emitter, node: OnnxNode) -> Tensor:
    """Between two numbers; before opset 11 they are attributes."""
    x = node.input(0)
    low, high = (_bound(node, i, name) for i, name in ((1, "min"), (2, "max")))
    limits = _limit(low, -math.inf), _limit(high, math.inf)
    if x.type == "FLOAT32" and limits in functions.CLAMPS:
        return g.unary(functions.CLAMPS[limits], x)
    y = x if low is None or limits[0] == -math.inf else g.binary("MAXIMUM", x, low)
    return y if high is None or limits[1] == math.inf else g.binary("MINIMUM", y, high)


def _bound(node: OnnxNode, i: int, name: str) -> Operand:
    given = node.attributes.get(name)
    return node.optional(i) if given is None else np.array(given, np.float32)


def _limit(value: Operand, default: float) -> float | None:
    if value is None:
        return default
    data = value if isinstance(value, np.ndarray) else value.data
    return None if data is None else float(data.reshape(-1)[0])


def p_relu(g: Emitter, node: OnnxNode) -> Tensor:
    """Slopes that broadcast to x or, as before opset 7, one for each channel, which is dimension 1."""
    x, slope = node.input(0), node.input(1)
    if len(slope.shape) == 1 and slope.size > 1 and slope.size == x.shape[1] != x.shape[-1]:
        slope = g.reshape(slope, (slope.size, *[1] * (len(x.shape) - 2)))
    if x.type == "FLOAT32":
        return g.emit("PRELU", [x, slope], x.shape)
    below = g.binary("LESS", x, np.array(0, x.dtype), type="BOOL")
    return arithmetic.choose(g, below, g.binary("MUL", x, slope), x)


def thresholded_relu(g: Emitter, node: OnnxNode) -> Tensor:
    """x where it is above alpha, else 0."""
    x, alpha = node.input(0), functions.number(node.attribute("alpha", 1.0))
    above = g.binary("GREATER", x, alpha, type="BOOL")
    return arithmetic.choose(g, above, x, g.known(functions.number(0)))


def shrink(g: Emitter, node: OnnxNode) -> Tensor:
    """x + bias below -lambd, x - bias above lambd, else 0."""
    x, bias, limit = node.input(0), float(node.attribute("bias", 0.0)), float(node.attribute("lambd", 0.5))
    if bias == limit and x.type == "FLOAT32":
        return g.binary("SUB", x, functions.clamp(g, x, -limit, limit))
    if x.type != "FLOAT32":
        return g.cast(shrink(g, replace(node, inputs=(g.cast(x, "FLOAT32"),))), x.type)
    zero = g.known(functions.number(0))
    y = zero
    for op, edge, by in (("LESS", -limit, -bias), ("GREATER", limit, bias)):
        moved = g.binary("SUB", x, functions.number(by)) if by else x
        y = arithmetic.choose(g, g.binary(op, x, functions.number(edge), type="BOOL"), moved, y)
    return y


def relu(g: Emitter, node: OnnxNode) -> Tensor:
    """RELU; of integers MAXIMUM with 0."""
    x = node.input(0)
    return g.unary("RELU", x) if x.type == "FLOAT32" else g.binary("MAXIMUM", x, np.array(0, x.dtype))


def leaky_relu(g: Emitter, node: OnnxNode) -> Tensor:
    return g.unary("LEAKY_RELU", node.input(0), alpha=float(node.attribute("alpha", 0.01)))


def hard_sigmoid(g: Emitter, node: OnnxNode) -> Tensor:
    alpha, beta = float(node.attribute("alpha", 0.2)), float(node.attribute("beta", 0.5))
    return functions.hard_sigmoid(g, node.input(0), alpha, beta)


def selu(g: Emitter, node: OnnxNode) -> Tensor:
    alpha, gamma = node.attribute("alpha", functions.SELU_ALPHA), node.attribute("gamma", functions.SELU_GAMMA)
    return functions.selu(g, node.input(0), float(alpha), float(gamma))


def swish(g: Emitter, node: OnnxNode) -> Tensor:
    """x * sigmoid(alpha * x)."""
    x, alpha = node.input(0), float(node.attribute("alpha", 1.0))
    inner = x if alpha == 1 else g.binary("MUL", x, functions.number(alpha))
    return g.binary("MUL", x, g.unary("LOGISTIC", inner))


def hardmax(g: Emitter, node: OnnxNode) -> Tensor:
    """1 for the first greatest value, 0 for the others."""

    def run(rows: Tensor) -> Tensor:
        extent = rows.shape[-1]
        first = g.emit(
            "ARG_MAX", [rows, np.array(len(rows.shape) - 1, np.int32)], rows.shape[:-1], "INT32", output_type="INT32"
        )
        ends = np.array(extent, np.int32), np.array(1, rows.dtype), np.array(0, rows.dtype)
        return g.emit("ONE_HOT", [first, *ends], rows.shape, rows.type, axis=-1)

    return _along(g, node, run)


def _along(g: Emitter, node: OnnxNode, run: Callable[[Tensor], Tensor]) -> Tensor:
    """``run`` along one axis, which is the last of what it gets; before opset 13 along all dimensions from it on."""
    x = node.input(0)
    if not x.shape:
        return g.reshape(run(g.reshape(x, (1,))), ())
    if node.opset >= 13:
        return g.along_last(x, [node.axis(-1)], run)
    axis = node.axis(1)
    return g.reshape(run(g.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))), x.shape)


def _normalised(op: str, **options: Any) -> Callable[[Emitter, OnnxNode], Tensor]:
    def run(g: Emitter, node: OnnxNode) -> Tensor:
        return _along(g, node, lambda rows: g.unary(op, rows, **options))

    return run


IMPORTERS: dict[str, Importer] = {
    "Celu": lambda g, node: functions.celu(g, node.input(0), float(node.attribute("alpha", 1.0))),
    "Clip": clip,
    "Elu": lambda g, node: functions.elu(g, node.input(0), float(node.attribute("alpha", 1.0))),
    "Gelu": lambda g, node: g.unary("GELU", node.input(0), approximate=node.attribute("approximate", "none") == "tanh"),
    "HardSigmoid": hard_sigmoid,
    "HardSwish": unary("HARD_SWISH"),
    "Hardmax": hardmax,
    "LeakyRelu": leaky_relu,
    "LogSoftmax": _normalised("LOG_SOFTMAX"),
    "Mish": of_one(functions.mish),
    "PRelu": p_relu,
    "Relu": relu,
    "Selu": selu,
    "Shrink": shrink,
    "Sigmoid": unary("LOGISTIC"),
    "Softmax": _normalised("SOFTMAX", beta=1.0),
    "Softplus": of_one(functions.softplus),
    "Softsign": of_one(functions.softsign),
    "Swish": swish,
    "Tanh": unary("TANH"),
    "ThresholdedRelu": thresholded_relu,
}
