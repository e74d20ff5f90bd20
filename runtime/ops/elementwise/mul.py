"""MUL, with broadcasting and fused activations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.fixed_point import quantize_multiplier, requantize, wrap32
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import SUFFIX, Case, Op, Shape
from twinfer.runtime.ops.core.activation import clamped, output_range
from twinfer.runtime.ops.core.broadcast import (
    SHAPES,
    Walk,
    binary_case,
    broadcast_call,
    commuted,
    infer_binary,
    infer_quantized,
    stored_cases,
)
from twinfer.runtime.ops.core.quantized import unscaled
from twinfer.runtime.ops.core.unsigned import product, ratio
from twinfer.runtime.ops.isa.short import scaled_s8
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

TYPES = ("INT8", "INT16", "FLOAT32", "INT32", "INT64", "UINT32")

_SCALED = ("INT8", "INT16")


def infer(node: Node) -> list[Shape]:
    shapes = infer_binary(node, *TYPES) if unscaled(node) else infer_quantized(node, *TYPES)
    output_range(node)
    return shapes


def multiplier(node: Node) -> tuple[int, int]:
    """Source: TFLM's CalculateOpDataMul (float64; LiteRT's int16 and uint8 take float32)."""
    factor = product(node, node.input(0).scale, node.input(1).scale)
    return quantize_multiplier(ratio(node, factor, node.output.scale))


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Source: TFLM reference_integer_ops::Mul: the product of the values less their zero points, rescaled once."""
    a, b = inputs
    low, high = output_range(node).values()
    if node.output.type == "FLOAT32":
        with np.errstate(over="ignore", invalid="ignore"):
            return [(a * b).clip(low, high)]
    if node.output.type not in _SCALED or unscaled(node):
        with np.errstate(over="ignore"):
            return [clamped(a * b, low, high)]
    a, b = a.astype(np.int64), b.astype(np.int64)
    product = (a - node.input(0).zero) * (b - node.input(1).zero)
    total = wrap32(requantize(product, *multiplier(node)) + node.output.zero)
    return [total.clip(low, high).astype(node.output.dtype)]


def lower(node: Node, target: Target) -> Call:
    a, b = commuted(node.input(0), node.input(1))
    y, params = node.output, output_range(node)
    if unscaled(node):
        return broadcast_call("tw_mul_stored_s16", (a, b), y, params, target)
    if y.type == "INT8":
        params |= {"a_zero": a.zero, "b_zero": b.zero, "out_zero": y.zero}
    if y.type in _SCALED:
        params |= dict(zip(("mult", "shift"), multiplier(node), strict=True))
    return broadcast_call(f"tw_mul_{SUFFIX[y.type]}", (a, b), y, params, target)


def _lower_scaled(node: Node, target: Target) -> Call:
    """One short requantisation: kernels_c/elementwise/mul.h, ``tw_mul_scaled_s8``, and mul_wide.h."""
    a, b = commuted(node.input(0), node.input(1))
    accept(output_range(node) == {"low": -128, "high": 127}, "it has a fused activation")
    wide = target.has("simd")
    accept(not wide or Walk.of(a, b, target).b_step != 0, "an operand has one value per row")
    params = {"a_zero": a.zero, "b_zero": b.zero, **scaled_s8(*multiplier(node), node.output.zero)}
    return broadcast_call("tw_mul_wide_s8" if wide else "tw_mul_scaled_s8", (a, b), node.output, params, target)


def _lower_mve(node: Node, target: Target) -> Call:
    """kernels_c/elementwise/mul_mve.h."""
    a, b = commuted(node.input(0), node.input(1))
    mult, shift = multiplier(node)
    accept(shift <= 0, "the multiplier is above 1")
    accept(Walk.of(a, b, target).b_step != 0, "an operand has one value per row")
    params = {"a_zero": a.zero, "b_zero": b.zero, "out_zero": node.output.zero, "mult": mult, "shift": shift}
    return broadcast_call("tw_mul_mve_s8", (a, b), node.output, params | output_range(node), target)


SCALES = (
    (0.5, 3, 0.25, -5, 0.7, 1), (0.013, -128, 0.013, -128, 0.026, -128), (1.0, 127, 1e-4, -128, 0.9, 127),
    (1e-6, 0, 3e-6, 0, 1e-6, 0), (3.0, 4, 0.9, 4, 1.1, -3), (4.0, 0, 4.0, 9, 1e-2, 0), (60.0, 0, 4.0, 9, 1e-3, 0),
)  # fmt: skip


def cases(rng: np.random.Generator) -> Iterator[Case]:
    acts = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")
    for i, (a, b) in enumerate(SHAPES):
        yield binary_case("MUL", "INT8", (a, b), SCALES[i % 5], fused_activation_function="NONE")
        yield binary_case("MUL", "FLOAT32", (a, b), fused_activation_function=acts[i % 4])
        if i % 3 == 1:
            yield binary_case("MUL", "INT32", (a, b), fused_activation_function="NONE")
        wide = (0.002 * (i + 1), 0, 0.003, 0, (0.1, 3e-6)[i % 4 == 3], 0)
        yield binary_case("MUL", "INT16", (a, b), wide, fused_activation_function=acts[i // 2 % 4])
    for i, scales in enumerate(SCALES):
        for act in ("NONE", acts[1 + i % 3]):
            yield binary_case("MUL", "INT8", ((333,), (333,)), scales, fused_activation_function=act)
    for act in acts[1:]:
        values = tuple(rng.integers(-9, 9, 99).astype(np.int32) for _ in range(2))
        yield binary_case("MUL", "INT32", ((99,), (99,)), values=values, fused_activation_function=act)
    huge = np.array([3e38, -3e38, np.inf, -np.inf, np.nan, 1, -0.0], np.float32)
    swapped = huge[[0, 1, 2, 6, 5, 4, 3]]
    yield binary_case("MUL", "FLOAT32", ((7,), (7,)), values=(huge, swapped), fused_activation_function="NONE")
    for type in ("INT64", "INT16", "UINT32"):
        yield from stored_cases("MUL", type, rng)


OP = Op("MUL", infer, reference, lower, cases, pointwise="exact", uint8="computes")

VARIANTS = (
    Variant("wide", ("MUL",), frozenset({"simd"}), _lower_scaled, ("INT8",)),
    Variant("mve", ("MUL",), frozenset({"mve"}), _lower_mve, ("INT8",)),
    Variant("words", ("MUL",), frozenset({"words"}), _lower_scaled, ("INT8",)),
)
