"""Activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from twinfer.converter.emit import activation
from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.onnx.node import OnnxNode
from twinfer.runtime.graph import Tensor


def clip(g: Emitter, node: OnnxNode) -> Tensor:
    x, low, high = node.input(0), node.optional(1), node.optional(2)
    limits = _limit(low, -math.inf), _limit(high, math.inf)
    if x.type == "FLOAT32" and limits in activation.CLAMPS:
        return g.unary(activation.CLAMPS[limits], x)
    y = x if low is None or limits[0] == -math.inf else g.binary("MAXIMUM", x, low)
    return y if high is None or limits[1] == math.inf else g.binary("MINIMUM", y, high)


def _limit(value: Tensor | None, default: float) -> float | None:
    if value is None:
        return default
    return None if value.data is None else float(value.data.reshape(-1)[0])


def leaky_relu(g: Emitter, node: OnnxNode) -> Tensor:
    return g.unary("LEAKY_RELU", node.input(0), alpha=float(node.attribute("alpha", 0.01)))


def prelu(g: Emitter, node: OnnxNode) -> Tensor:
    return g.emit("PRELU", [node.input(0), node.input(1)], node.input(0).shape)


def hard_sigmoid(g: Emitter, node: OnnxNode) -> Tensor:
    alpha, beta = float(node.attribute("alpha", 0.2)), float(node.attribute("beta", 0.5))
    return activation.hard_sigmoid(g, node.input(0), alpha, beta)


def elu(g: Emitter, node: OnnxNode) -> Tensor:
    return activation.elu(g, node.input(0), float(node.attribute("alpha", 1.0)))


def celu(g: Emitter, node: OnnxNode) -> Tensor:
    return activation.celu(g, node.input(0), float(node.attribute("alpha", 1.0)))


def selu(g: Emitter, node: OnnxNode) -> Tensor:
    alpha, gamma = node.attribute("alpha", activation.SELU_ALPHA), node.attribute("gamma", activation.SELU_GAMMA)
    return activation.selu(g, node.input(0), float(alpha), float(gamma))


def swish(g: Emitter, node: OnnxNode) -> Tensor:
    """x * sigmoid(alpha * x)."""
    x, alpha = node.input(0), float(node.attribute("alpha", 1.0))
    inner = x if alpha == 1 else g.binary("MUL", x, activation.number(alpha))
    return g.binary("MUL", x, g.unary("LOGISTIC", inner))


def gelu(g: Emitter, node: OnnxNode) -> Tensor:
    return g.unary("GELU", node.input(0), approximate=node.attribute("approximate", "none") == "tanh")


def _plain(run: Callable[[Emitter, Tensor], Tensor]) -> Callable[[Emitter, OnnxNode], Tensor]:
    """One input, no attributes."""
    return lambda g, node: run(g, node.input(0))


def _normalised(op: str, **options: Any) -> Callable[[Emitter, OnnxNode], Tensor]:
    """Over one axis; before opset 13 over all dimensions from the axis on."""

    def run(g: Emitter, node: OnnxNode) -> Tensor:
        x = node.input(0)
        if node.opset < 13:
            axis = node.axis(1)
            flat = g.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
            return g.reshape(g.unary(op, flat, **options), x.shape)
        return activation.along(g, op, x, node.axis(-1), **options)

    return run


IMPORTERS = {
    "Celu": celu,
    "Clip": clip,
    "Elu": elu,
    "Gelu": gelu,
    "HardSigmoid": hard_sigmoid,
    "LeakyRelu": leaky_relu,
    "LogSoftmax": _normalised("LOG_SOFTMAX"),
    "PRelu": prelu,
    "Selu": selu,
    "Softmax": _normalised("SOFTMAX", beta=1.0),
    "Mish": _plain(activation.mish),
    "Softplus": _plain(activation.softplus),
    "Softsign": _plain(activation.softsign),
    "Swish": swish,
}
