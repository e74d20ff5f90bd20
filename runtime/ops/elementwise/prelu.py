"""PRELU: negative values times alpha, which broadcasts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.runtime.fixed_point import quantize_multiplier, requantize, wrap32
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor
from twinfer.runtime.ops.core.broadcast import binary_case, broadcast_call, infer_broadcast, infer_quantized
from twinfer.runtime.ops.core.quantized import need_symmetric
from twinfer.runtime.ops.core.unsigned import is_unsigned
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def infer(node: Node) -> list[Shape]:
    need(len(node.inputs) == 2 and len(node.outputs) == 1, node, "it needs two inputs and one output")
    x, alpha = node.input(0), node.input(1)
    if x.type != "INT16":
        return infer_quantized(node, "INT8", "FLOAT32")
    need_type(node, alpha, "INT8")
    need_type(node, node.output, "INT16")
    need_symmetric(node, x, alpha, node.output)
    return infer_broadcast(node)


def _multipliers(node: Node) -> list[tuple[int, int]]:
    """Multiplier and shift for values from zero up, and for negative ones.

    Source: TFLM's CalculatePreluParams, in float64; of the types that TFLM lacks, LiteRT's PreluPrepare, in float32.
    """
    wide = np.float32 if node.output.type == "INT16" or is_unsigned(node) else np.float64
    x, alpha, y = (wide(t.scale) for t in (node.input(0), node.input(1), node.output))
    return [quantize_multiplier(float(real)) for real in (x / y, x * alpha / y)]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """TFLM reference_ops::BroadcastPrelu4DSlow and its float twin. With int16, alpha is int8."""
    x, alpha = inputs
    if node.output.type == "FLOAT32":
        return [np.where(x >= 0, x, x * alpha)]
    above, below = _multipliers(node)
    t = x.astype(np.int64) - node.input(0).zero
    product = t * (alpha.astype(np.int64) - node.input(1).zero)
    scaled = np.where(t >= 0, requantize(t, *above), requantize(product, *below))
    info = np.iinfo(node.output.dtype)
    return [wrap32(scaled + node.output.zero).clip(info.min, info.max).astype(node.output.dtype)]


def lower(node: Node, target: Target) -> Call:
    x, alpha, y = node.input(0), node.input(1), node.output
    if y.type == "FLOAT32":
        return broadcast_call("tw_prelu_f32", (x, alpha), y, {}, target)
    (mult, shift), (alpha_mult, alpha_shift) = _multipliers(node)
    params = {"mult": mult, "shift": shift, "alpha_mult": alpha_mult, "alpha_shift": alpha_shift}
    if y.type == "INT16":
        wide = broadcast_call("tw_prelu_s16", (x, alpha), y, params | {"alpha_zero": alpha.zero}, target)
        return replace(wide, inplace=(0,))  # an element of alpha has one byte only
    params |= {"zero": x.zero, "alpha_zero": alpha.zero, "out_zero": y.zero}
    return broadcast_call("tw_prelu_s8", (x, alpha), y, params, target)


SCALES = (
    (0.5, 3, 0.01, -5, 0.3, 1), (0.013, -128, 0.013, 0, 0.026, -128), (1.0, 127, 0.002, 127, 0.9, 127),
    (1e-6, 0, 0.5, -128, 1e-6, 0), (3.0, 4, 0.9, 4, 0.1, -3), (1e-7, 0, 1e-7, 0, 3.0, 9),
)  # fmt: skip
SHAPES: tuple[tuple[Shape, Shape], ...] = (
    ((2, 5, 7, 3), (3,)), ((2, 5, 7, 3), (1, 1, 3)), ((2, 5, 7, 3), (5, 7, 3)), ((4, 33), (1,)), ((67,), (67,)),
    ((1,), (1,)), ((2, 5, 1, 3), (1, 5, 1, 1)), ((3,), (4, 3)), ((4, 1), (33,)),
)  # fmt: skip


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for i, (x, alpha) in enumerate(SHAPES):
        yield binary_case("PRELU", "INT8", (x, alpha), SCALES[i % len(SCALES)])
        yield binary_case("PRELU", "FLOAT32", (x, alpha))
        if np.broadcast_shapes(x, alpha) == x:
            slope = tensor(alpha, "INT8", 0.02, 7, name="b")
            operands = (tensor(x, "INT16", (0.001, 3e-6)[i % 2], name="a"), slope)
            yield Case(Node("PRELU", operands, (tensor(x, "INT16", 0.0007, name="c"),)))
    for scales in SCALES:
        yield binary_case("PRELU", "INT8", ((5, 67), (67,)), scales)
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, -1e-40], np.float32)
    yield binary_case("PRELU", "FLOAT32", ((6,), (1,)), values=(odd, np.array([-0.5], np.float32)))


OP = Op("PRELU", infer, reference, lower, cases, pointwise="exact", uint8="computes")
