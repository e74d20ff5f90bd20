"""Normalisation by the input's own mean and variance, and by those of the training data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from twinfer.converter.emit.arithmetic import power
from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.emit.functions import affine, along, moments, normalize, number, reduced, scale_and_shift
from twinfer.converter.onnx.node import OnnxNode, positive
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Tensor


def batch_normalization(g: Emitter, node: OnnxNode) -> Tensor:
    """x * scale / sqrt(variance + epsilon) + (bias - mean * …), as two operators over constants [1, c, 1, …]."""
    node.need(not node.attribute("training_mode", 0), "training mode; export the model for inference (model.eval())")
    if any(node.input(i).data is None for i in range(1, 5)):
        return _by_computed(g, node)
    scale, bias, mean, variance = (np.asarray(node.constant(i), np.float64) for i in range(1, 5))
    factor = scale / np.sqrt(variance + float(node.attribute("epsilon", 1e-5)))
    return affine(g, node.input(0), factor, bias - mean * factor, 1)


def _by_computed(g: Emitter, node: OnnxNode) -> Tensor:
    """By statistics that the model computes itself, as PyTorch does where it tracked none."""
    x = node.input(0)
    shape = (1, x.shape[1], *[1] * (len(x.shape) - 2))
    scale, bias, mean, variance = (g.reshape(node.input(i), shape) for i in range(1, 5))
    epsilon = np.array(node.attribute("epsilon", 1e-5), np.float32)
    factor = g.unary("RSQRT", g.binary("ADD", variance, epsilon))
    return scale_and_shift(g, g.binary("MUL", g.binary("SUB", x, mean), factor), scale, bias)


def layer_normalization(g: Emitter, node: OnnxNode) -> tuple[Tensor, Tensor, Tensor]:
    """Normalises over all dimensions from the axis on. The other outputs are the mean and 1 / the standard
    deviation."""
    x, axis = node.input(0), node.axis(-1)
    axes = tuple(range(axis, len(x.shape)))
    y, mean, factor = normalize(g, x, axes, float(node.attribute("epsilon", 1e-5)))
    return scale_and_shift(g, y, node.input(1), node.optional(2)), mean, factor


def instance_normalization(g: Emitter, node: OnnxNode) -> Tensor:
    """Every channel of every image over its height and width."""
    x = node.input(0)
    y, _, _ = normalize(g, x, tuple(range(2, len(x.shape))), float(node.attribute("epsilon", 1e-5)))
    shape = (1, x.shape[1], *[1] * (len(x.shape) - 2))
    return scale_and_shift(g, y, *(g.reshape(node.input(i), shape) for i in (1, 2)))


def group_normalization(g: Emitter, node: OnnxNode) -> Tensor:
    """Normalises groups of channels. Scale and bias have one number per channel; before opset 21, one per group."""
    x, groups = node.input(0), int(node.attribute("num_groups", 1))
    n, c, *image = x.shape
    if c % groups:
        raise ModelError(f"{node}: {c} channels do not divide by {groups} groups")
    split = g.reshape(x, (n, groups, c // groups, math.prod(image)))
    y, _, _ = normalize(g, split, (2, 3), float(node.attribute("epsilon", 1e-5)))
    if node.opset < 21:
        return g.reshape(scale_and_shift(g, y, *(g.reshape(node.input(i), (1, groups, 1, 1)) for i in (1, 2))), x.shape)
    shape = (1, c, *[1] * len(image))
    return scale_and_shift(g, g.reshape(y, x.shape), *(g.reshape(node.input(i), shape) for i in (1, 2)))


def mean_variance_normalization(g: Emitter, node: OnnxNode) -> Tensor:
    """(x - mean) / (standard deviation + 1e-9)."""
    x = node.input(0)
    axes = tuple(sorted({positive(node, int(axis), len(x.shape)) for axis in node.attribute("axes", (0, 2, 3))}))
    _, rest, variance = moments(g, x, axes)
    return g.binary("DIV", rest, g.binary("ADD", g.unary("SQRT", variance), number(1e-9)))


def lp_normalization(g: Emitter, node: OnnxNode) -> Tensor:
    """x by the sum of magnitudes along an axis, or by the root of the sum of squares; nothing stays nothing."""
    x, axis, order = node.input(0), node.axis(-1), int(node.attribute("p", 2))
    node.need(order in (1, 2), f"p {order}; there are 1 and 2")
    if order == 2:
        return along(g, "L2_NORMALIZATION", x, axis)
    total = reduced(g, "SUM", g.unary("ABS", x), (axis,), True)
    return g.binary("DIV", x, g.binary("MAXIMUM", total, number(float(np.finfo(np.float32).tiny))))


def lrn(g: Emitter, node: OnnxNode) -> Tensor:
    """x / (bias + alpha * mean of the squares of ``size`` channels, with zeros beyond the first and last) ** beta."""
    x, size = node.input(0), int(node.attribute("size", 1))
    alpha, beta, bias = (float(node.attribute(name, v)) for name, v in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    n, c, *image = x.shape
    last = g.transpose(x, (0, *range(2, len(x.shape)), 1))
    squares = g.reshape(g.binary("MUL", last, last), (1, n * math.prod(image), c, 1))
    padded = g.pad(squares, [(0, 0), (0, 0), ((size - 1) // 2, size // 2), (0, 0)])
    sides: dict[str, Any] = {"filter_height": 1, "filter_width": size, "stride_h": 1, "stride_w": 1}
    mean = g.reshape(g.emit("AVERAGE_POOL_2D", [padded], squares.shape, padding="VALID", **sides), last.shape)
    level = g.binary("ADD", g.binary("MUL", mean, number(alpha)), number(bias))
    factor = power(g, level, g.known(number(-beta)))
    return g.transpose(g.binary("MUL", last, factor), (0, len(x.shape) - 1, *range(1, len(x.shape) - 1)))


IMPORTERS = {
    "BatchNormalization": batch_normalization,
    "GroupNormalization": group_normalization,
    "InstanceNormalization": instance_normalization,
    "LayerNormalization": layer_normalization,
    "LpNormalization": lp_normalization,
    "LRN": lrn,
    "MeanVarianceNormalization": mean_variance_normalization,
}
