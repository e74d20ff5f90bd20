"""RELU, RELU6, RELU_N1_TO_1, RELU_0_TO_1: clamping; integers are requantised if the quantisations differ."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.runtime.fixed_point import quantize_multiplier, requantize, wrap32
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape
from twinfer.runtime.ops.core.activation import quantized_range, vector_range
from twinfer.runtime.ops.core.unsigned import ratio
from twinfer.runtime.ops.functions import _unary
from twinfer.runtime.ops.functions._unary import elementwise, float_cases, int8_case, int16_case, lookup
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def _as_fused(node: Node) -> Node:
    """The node with itself as its fused activation, which has the same range."""
    return replace(node, options={"fused_activation_function": node.op})


def infer(node: Node) -> list[Shape]:
    return _unary.infer(node, "INT16")


def _integers(node: Node, q: Array) -> Array:
    """Source: LiteRT's QuantizedReluX, of which TFLM's ReluQuantized is the unbounded case."""
    x, y = node.input(0), node.output
    mult, shift = quantize_multiplier(ratio(node, x.scale, y.scale))
    steps = requantize(q.astype(np.int64) - x.zero, mult, shift)
    low, high = quantized_range(_as_fused(node), y)
    return np.clip(wrap32(steps + y.zero), low, high).astype(y.dtype)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    (x,) = inputs
    low, high = vector_range(_as_fused(node))
    return [_integers(node, x) if x.dtype.kind == "i" else np.clip(x, low, high)]


def lower(node: Node, target: Target) -> Call:
    x, y = node.input(0), node.output
    if x.type == "FLOAT32":
        low, high = vector_range(_as_fused(node))
        return elementwise(node, "tw_relu_f32", low=low, high=high)
    least, most = quantized_range(_as_fused(node), y)
    if x.type == "INT16":
        mult, shift = quantize_multiplier(x.scale / y.scale)
        return elementwise(node, "tw_relu_s16", mult=mult, shift=shift, low=least, high=most)
    if (x.scale, x.zero) != (y.scale, y.zero):
        return lookup(node, lambda q: _integers(node, q), target)
    return elementwise(node, "tw_relu_s8", low=least, high=most)


def _cases(op: str) -> Iterator[Case]:
    in_tflm = op in ("RELU", "RELU6")
    for case in float_cases(op, 0.0):
        yield Case(case.node, case.inputs, "tflm" if in_tflm else "litert")
    for quant in ((0.05, 3), (0.05, -128), (0.003, 127), (1.0, 0), (40.0, 5)):
        yield int8_case(op, quant, quant, "tflm" if in_tflm else "litert")
    why = "neither TFLM nor LiteRT has it for int16"
    yield int16_case(op, 0.001, 0.001, "tflm" if in_tflm else "none", "" if in_tflm else why)
    yield int16_case(op, 0.002, 0.0007, {"RELU": "tflm", "RELU6": "litert"}.get(op, "none"), "" if in_tflm else why)
    unequal = "tflm" if op == "RELU" else "litert"  # TFLM's RELU6 does not requantise
    for x, y in (
        ((0.05, 3), (0.03, -20)), ((0.03, -20), (0.05, 3)), ((0.05, -128), (0.0004, 127)),
        ((0.0004, 127), (0.05, -128)), ((0.05, 3), (0.05, -128)), ((2.0, 5), (math.pi, -7)),
    ):  # fmt: skip
        yield int8_case(op, x, y, unequal)


def _op(name: str) -> Op:
    return Op(name, infer, reference, lower, lambda rng: _cases(name), pointwise="exact", uint8="computes")


OPS = tuple(_op(name) for name in ("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"))
