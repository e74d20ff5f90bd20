"""LEAKY_RELU: negative values times a constant; int8 is a table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.fixed_point import quantize_multiplier, requantize, wrap32
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, tensor
from twinfer.runtime.ops.core.unsigned import product, ratio
from twinfer.runtime.ops.functions import _unary
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def _alpha(node: Node) -> np.float32:
    return np.float32(node.options.get("alpha", 0.0))


def infer(node: Node) -> list[Shape]:
    shapes = _unary.infer(node, "INT16")
    x, y = node.input(0), node.output
    need(bool(np.isfinite(_alpha(node))), node, f"alpha is {_alpha(node)}")
    if x.type != "FLOAT32":
        need(all(map(math.isfinite, _factors(node))), node, f"alpha and the scales of {x} and {y} are too far apart")
    return shapes


def _factors(node: Node) -> tuple[float, float]:
    """Factors from input to output steps: for values from zero up, and for negative ones.

    Source: TFLM's CalculateOpDataLeakyRelu.
    """
    scale, out_scale = node.input(0).scale, node.output.scale
    return ratio(node, scale, out_scale), ratio(node, product(node, scale, float(_alpha(node))), out_scale)


def _quantized(node: Node, x: NDArray[np.int64]) -> Array:
    """Source: TFLM reference_ops::QuantizeLeakyRelu."""
    above, below = (quantize_multiplier(real) for real in _factors(node))
    t = x - node.input(0).zero
    scaled = np.where(t >= 0, requantize(t, *above), requantize(t, *below))
    info = np.iinfo(node.output.dtype)
    return wrap32(scaled + node.output.zero).clip(info.min, info.max).astype(node.output.dtype)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    x = inputs[0]
    if node.output.type != "FLOAT32":
        return [_quantized(node, x.astype(np.int64))]
    return [np.where(x > 0, x, x * _alpha(node))]


def lower(node: Node, target: Target) -> Call:
    if node.output.type == "FLOAT32":
        return _unary.elementwise(node, "tw_leaky_relu_f32", alpha=float(_alpha(node)))
    if node.output.type == "INT16":
        (mult, shift), (alpha_mult, alpha_shift) = (quantize_multiplier(real) for real in _factors(node))
        params = {"mult": mult, "shift": shift, "alpha_mult": alpha_mult, "alpha_shift": alpha_shift}
        return _unary.elementwise(node, "tw_leaky_relu_s16", **params)
    return _unary.lookup(node, lambda q: _quantized(node, q), target)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    everything = np.arange(-128, 128).astype(np.int8)
    scales = ((0.1, 3, 0.1, 3), (0.5, -128, 0.02, 127), (0.02, 127, 0.5, -128), (3e-5, 0, 3.0, 0), (0.3, -7, 0.07, 9))
    for alpha in (0.2, 0.01, 0.0, 1.0, 1.7, -0.4):
        x, y = tensor((3, 5, 7)), tensor((3, 5, 7), name="y")
        yield Case(Node("LEAKY_RELU", (x,), (y,), {"alpha": alpha}))
        yield _unary.int16_case("LEAKY_RELU", 0.001, 0.001, alpha=alpha)
        yield _unary.int16_case("LEAKY_RELU", float(rng.uniform(0.001, 0.002)), 0.0009, alpha=alpha)
        for in_scale, in_zero, out_scale, out_zero in scales:
            x, y = tensor((256,), "INT8", in_scale, in_zero), tensor((256,), "INT8", out_scale, out_zero, name="y")
            yield Case(Node("LEAKY_RELU", (x,), (y,), {"alpha": alpha}), (everything,))


OP = Op("LEAKY_RELU", infer, reference, lower, cases, pointwise="exact", uint8="computes")
