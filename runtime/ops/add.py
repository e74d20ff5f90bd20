"""ADD and SUB, with broadcasting and fused activations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.fixed_point import quantize_multiplier, requantize
from twinfer.runtime.graph import Node
from twinfer.runtime.op import Array, Call, Case, Op, Param, Shape, tensor, unsupported
from twinfer.runtime.ops._activation import float_range, integer_range, quantized_range
from twinfer.runtime.ops._broadcast import SHAPES, binary_case, infer_quantized, walk
from twinfer.runtime.target import Target

LEFT_SHIFT = 20


def infer(node: Node) -> list[Shape]:
    shapes = infer_quantized(node, "INT8", "FLOAT32", "INT32")
    float_range(node)
    if node.output.type == "INT8" and _multipliers(node)[2][1] > 0:
        raise unsupported(node, f"the scale of {node.output} is too small beside its inputs'; requantise the model")
    return shapes


def _multipliers(node: Node) -> list[tuple[int, int]]:
    """Multiplier and shift of both inputs and the output. Source: TFLM's CalculateOpDataAdd."""
    a, b, y = node.input(0).scale, node.input(1).scale, node.output.scale
    common = 2 * max(a, b)
    return [quantize_multiplier(real) for real in (a / common, b / common, common / ((1 << LEFT_SHIFT) * y))]


def _sign(node: Node) -> int:
    return -1 if node.op == "SUB" else 1


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """TFLM reference_integer_ops::Add and reference_ops::Sub: both operands in 20 more bits, then one rescaling."""
    a, b = inputs
    if node.output.type == "FLOAT32":
        with np.errstate(over="ignore", invalid="ignore"):
            total = a + b if _sign(node) > 0 else a - b
        return [np.clip(total, *np.float32(float_range(node)))]
    a, b = a.astype(np.int64), b.astype(np.int64)
    if node.output.type == "INT32":
        return [np.clip((a + _sign(node) * b).astype(np.int32), *np.int32(integer_range(node)))]
    by_a, by_b, by_y = _multipliers(node)
    scaled_a = requantize((a - node.input(0).zero) << LEFT_SHIFT, *by_a)
    scaled_b = requantize((b - node.input(1).zero) << LEFT_SHIFT, *by_b)
    total = requantize(scaled_a + _sign(node) * scaled_b, *by_y) + node.output.zero
    return [np.clip(total, *quantized_range(node, node.output)).astype(np.int8)]


def _quant_params(node: Node) -> dict[str, Param]:
    (a_mult, a_shift), (b_mult, b_shift), (mult, shift) = _multipliers(node)
    return {
        "a_zero": node.input(0).zero, "a_mult": a_mult, "a_shift": -a_shift,
        "b_zero": node.input(1).zero, "b_mult": b_mult, "b_shift": -b_shift,
        "out_zero": node.output.zero, "mult": mult, "shift": -shift,
    }  # fmt: skip


def lower(node: Node, target: Target) -> Call:
    a, b, y = node.input(0), node.input(1), node.output
    params = walk(a.shape, b.shape) | {"b_sign": _sign(node)}
    low: float
    high: float
    if y.type == "INT8":
        params |= _quant_params(node)
        low, high = quantized_range(node, y)
    else:
        low, high = float_range(node) if y.type == "FLOAT32" else integer_range(node)
    kernel = {"INT8": "tw_add_s8", "FLOAT32": "tw_add_f32", "INT32": "tw_add_s32"}[y.type]
    return Call(kernel, params | {"low": low, "high": high}, (a, b), (y,), inplace=(0, 1))


SCALES = (
    (0.5, 3, 0.25, -5, 0.7, 1), (0.013, -128, 0.013, -128, 0.026, -128), (1.0, 127, 1e-4, -128, 0.9, 127),
    (1e-6, 0, 3e-6, 0, 1e-6, 0), (0.1, 4, 0.1, 4, 30.0, -3), (1e-7, 0, 3.0, 9, 1e-3, 0),
)  # fmt: skip


def cases(op: str, rng: np.random.Generator) -> Iterator[Case]:
    acts = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")
    for i, (a, b) in enumerate(SHAPES):
        yield binary_case(op, "INT8", a, b, SCALES[i % len(SCALES)], fused_activation_function="NONE")
        yield binary_case(op, "FLOAT32", a, b, fused_activation_function=acts[i % 4])
        yield binary_case(op, "INT32", a, b, fused_activation_function="NONE")
    for scales in SCALES:
        for act in acts:
            yield binary_case(op, "INT8", (333,), (333,), scales, fused_activation_function=act)
    for act in acts[1:]:  # TFLM's ADD does not clamp int32
        values = tuple(rng.integers(-9, 9, 99).astype(np.int32) for _ in range(2))
        yield binary_case(op, "INT32", (99,), (99,), values=values, oracle="litert", fused_activation_function=act)
    huge = np.array([3e38, -3e38, np.inf, -np.inf, np.nan, 1, -0.0], np.float32)
    swapped = huge[[0, 1, 2, 3, 5, 4, 6]]
    yield binary_case(op, "FLOAT32", (7,), (7,), values=(huge, swapped), fused_activation_function="NONE")
    yield binary_case(op, "INT8", (2, 1, 2, 1, 3), (1, 2, 1, 2, 1), SCALES[0], fused_activation_function="NONE")
    constant = tensor((5,), "INT8", 0.2, 7, data=rng.integers(-128, 128, 5), name="c")
    y = tensor((3, 5), "INT8", 0.4, -9, name="y")
    yield Case(Node(op, (constant, tensor((3, 5), "INT8", 0.3, -8)), (y,), {"fused_activation_function": "RELU"}))


OPS = (
    Op("ADD", infer, reference, lower, lambda rng: cases("ADD", rng)),
    Op("SUB", infer, reference, lower, lambda rng: cases("SUB", rng)),
)
