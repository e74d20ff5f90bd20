"""MUL, with broadcasting and fused activations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.fixed_point import quantize_multiplier, requantize, wrap32
from twinfer.runtime.graph import Node
from twinfer.runtime.op import Array, Call, Case, Op, Shape
from twinfer.runtime.ops._activation import float_range, integer_range, quantized_range
from twinfer.runtime.ops._broadcast import SHAPES, binary_case, commuted, infer_quantized, walk
from twinfer.runtime.target import Target


def infer(node: Node) -> list[Shape]:
    float_range(node)
    return infer_quantized(node, "INT8", "FLOAT32", "INT32")


def _multiplier(node: Node) -> tuple[int, int]:
    """Source: TFLM's CalculateOpDataMul (float64; LiteRT's int16 takes float32)."""
    return quantize_multiplier(node.input(0).scale * node.input(1).scale / node.output.scale)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """TFLM reference_integer_ops::Mul: the product of the values less their zero points, rescaled once."""
    a, b = inputs
    if node.output.type == "FLOAT32":
        with np.errstate(over="ignore", invalid="ignore"):
            return [np.clip(a * b, *np.float32(float_range(node)))]
    a, b = a.astype(np.int64), b.astype(np.int64)
    if node.output.type == "INT32":
        return [np.clip((a * b).astype(np.int32), *np.int32(integer_range(node)))]
    product = (a - node.input(0).zero) * (b - node.input(1).zero)
    total = wrap32(requantize(product, *_multiplier(node)) + node.output.zero)
    return [np.clip(total, *quantized_range(node, node.output)).astype(np.int8)]


def lower(node: Node, target: Target) -> Call:
    a, b, y = node.input(0), node.input(1), node.output
    if commuted(a.shape, b.shape):
        a, b = b, a
    params = walk(a.shape, b.shape)
    if y.type == "FLOAT32":
        low, high = float_range(node)
        return Call("tw_mul_f32", params | {"low": low, "high": high}, (a, b), (y,), inplace=(0, 1))
    if y.type == "INT32":
        least, most = integer_range(node)
        return Call("tw_mul_s32", params | {"low": least, "high": most}, (a, b), (y,), inplace=(0, 1))
    least, most = quantized_range(node, y)
    mult, shift = _multiplier(node)
    params |= {"a_zero": a.zero, "b_zero": b.zero, "out_zero": y.zero, "mult": mult, "shift": shift}
    return Call("tw_mul_s8", params | {"low": least, "high": most}, (a, b), (y,), inplace=(0, 1))


SCALES = (
    (0.5, 3, 0.25, -5, 0.7, 1), (0.013, -128, 0.013, -128, 0.026, -128), (1.0, 127, 1e-4, -128, 0.9, 127),
    (1e-6, 0, 3e-6, 0, 1e-6, 0), (3.0, 4, 0.9, 4, 1.1, -3), (4.0, 0, 4.0, 9, 1e-2, 0), (60.0, 0, 4.0, 9, 1e-3, 0),
)  # fmt: skip


def cases(rng: np.random.Generator) -> Iterator[Case]:
    acts = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")
    for i, (a, b) in enumerate(SHAPES):
        yield binary_case("MUL", "INT8", a, b, SCALES[i % 5], fused_activation_function="NONE")
        yield binary_case("MUL", "FLOAT32", a, b, fused_activation_function=acts[i % 4])
        yield binary_case("MUL", "INT32", a, b, fused_activation_function="NONE")
    for scales in SCALES:
        for act in acts:
            yield binary_case("MUL", "INT8", (333,), (333,), scales, fused_activation_function=act)
    for act in acts[1:]:
        values = tuple(rng.integers(-9, 9, 99).astype(np.int32) for _ in range(2))
        yield binary_case("MUL", "INT32", (99,), (99,), values=values, fused_activation_function=act)
    huge = np.array([3e38, -3e38, np.inf, -np.inf, np.nan, 1, -0.0], np.float32)
    swapped = huge[[0, 1, 2, 6, 5, 4, 3]]
    yield binary_case("MUL", "FLOAT32", (7,), (7,), values=(huge, swapped), fused_activation_function="NONE")


OP = Op("MUL", infer, reference, lower, cases)
