"""Activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from twinfer.converter.onnx.emitter import Emitter
from twinfer.converter.onnx.node import OnnxNode
from twinfer.runtime.graph import Tensor

#: Limits that TFLite has an operator for.
CLAMPS = {(0.0, math.inf): "RELU", (0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1", (0.0, 1.0): "RELU_0_TO_1"}


def clip(g: Emitter, node: OnnxNode) -> Tensor:
    x, low, high = node.input(0), node.optional(1), node.optional(2)
    limits = _limit(low, -math.inf), _limit(high, math.inf)
    if x.type == "FLOAT32" and limits in CLAMPS:
        return g.unary(CLAMPS[limits], x)
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
    return hard_sigmoid_of(g, node.input(0), float(node.attribute("alpha", 0.2)), float(node.attribute("beta", 0.5)))


def hard_sigmoid_of(g: Emitter, x: Tensor, alpha: float, beta: float) -> Tensor:
    line = g.binary("MUL", x, np.array(alpha, np.float32))
    return g.unary("RELU_0_TO_1", g.binary("ADD", line, np.array(beta, np.float32)))


def elu(g: Emitter, node: OnnxNode) -> Tensor:
    return _elu(g, node.input(0), float(node.attribute("alpha", 1.0)))


def _elu(g: Emitter, x: Tensor, alpha: float) -> Tensor:
    """TFLite's ELU has alpha 1; others are max(x, 0) + alpha * ELU(min(x, 0))."""
    if alpha == 1:
        return g.unary("ELU", x)
    below = g.unary("ELU", g.binary("MINIMUM", x, np.array(0, np.float32)))
    return g.binary("ADD", g.unary("RELU", x), g.binary("MUL", below, np.array(alpha, np.float32)))


def selu(g: Emitter, node: OnnxNode) -> Tensor:
    alpha = float(node.attribute("alpha", 1.67326319217681884765625))
    gamma = float(node.attribute("gamma", 1.05070102214813232421875))
    return g.binary("MUL", _elu(g, node.input(0), alpha), np.array(gamma, np.float32))


def gelu(g: Emitter, node: OnnxNode) -> Tensor:
    return g.unary("GELU", node.input(0), approximate=node.attribute("approximate", "none") == "tanh")


def softsign(g: Emitter, node: OnnxNode) -> Tensor:
    x = node.input(0)
    return g.binary("DIV", x, g.binary("ADD", g.unary("ABS", x), np.array(1, np.float32)))


def _normalised(op: str, **options: Any) -> Callable[[Emitter, OnnxNode], Tensor]:
    """Over one axis; before opset 13 over all dimensions from the axis on."""

    def run(g: Emitter, node: OnnxNode) -> Tensor:
        x = node.input(0)
        if node.opset < 13:
            axis = node.axis(1)
            flat = g.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
            return g.reshape(g.unary(op, flat, **options), x.shape)
        order = [i for i in range(len(x.shape)) if i != node.axis(-1)] + [node.axis(-1)][: len(x.shape)]
        return g.transpose(g.unary(op, g.transpose(x, order), **options), [order.index(i) for i in range(len(order))])

    return run


IMPORTERS = {
    "Clip": clip,
    "Elu": elu,
    "Gelu": gelu,
    "HardSigmoid": hard_sigmoid,
    "LeakyRelu": leaky_relu,
    "LogSoftmax": _normalised("LOG_SOFTMAX"),
    "PRelu": prelu,
    "Selu": selu,
    "Softmax": _normalised("SOFTMAX", beta=1.0),
    "Softsign": softsign,
}
