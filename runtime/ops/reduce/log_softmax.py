"""LOG_SOFTMAX: x less the logarithm of the sum of exp(x), along the last dimension."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.constant import table
from twinfer.runtime.fixed_point import quantize_multiplier, requantize, round_shift
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, tensor, unsupported
from twinfer.runtime.ops.core.axis import last_axis, normalized
from twinfer.runtime.ops.core.gemmlowp import exp_of_negative, input_radius, log
from twinfer.runtime.ops.core.quantized import need_fixed_quant, need_quant
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

#: Bound of int8 scales whose steps have a multiplier and an inverse, and the longest row whose sum fits int32.
_LEAST = 2.0**-26
_LONGEST = 4095


def infer(node: Node) -> list[Shape]:
    x, y = normalized(node, "FLOAT32", "INT8")
    if x.type == "INT8":
        need_quant(node, x, y)
        need_fixed_quant(node, y, 16, 127)
        if not (x.scale > _LEAST and x.shape[-1] <= _LONGEST):
            raise unsupported(node, f"{x} has a scale or a last dimension that int32 sums do not hold: requantise it")
    return [x.shape]


def _scaling(node: Node) -> tuple[tuple[int, int], tuple[int, int], int]:
    """Multipliers from steps to 26 fractional bits and back, and how many steps below the greatest value count.

    Source: TFLM log_softmax.cc and PreprocessLogSoftmaxScalingExp.
    """
    mult, shift = quantize_multiplier(min(node.input(0).scale * (1 << 26), (1 << 31) - 1.0))
    return (mult, shift), quantize_multiplier((1 << 31 - shift) / mult), input_radius(5, shift)


def _tables(node: Node) -> tuple[Array, Array]:
    """-i steps with 26 fractional bits and their exponentials with 31, 0 where they do not count; i = 0..255."""
    scaling, _, radius = _scaling(node)
    i = np.arange(256)
    steps = np.where(i <= radius, requantize(-np.minimum(i, radius), *scaling), 0)
    return steps, np.where(i <= radius, exp_of_negative(steps, 5), 0)


def _int8(node: Node, x: Array) -> Array:
    """Source: TFLM reference_ops::LogSoftmaxQuantized."""
    _, back, radius = _scaling(node)
    steps, exps = _tables(node)
    rows = x.reshape(-1, x.shape[-1]).astype(np.int64)
    below = rows.max(axis=1, keepdims=True) - rows
    total = log(round_shift(exps[below], 12).sum(axis=1, keepdims=True))
    least = np.maximum(-radius - 1, requantize(total - (1 << 31), *back))
    q = np.where(-below > least, round_shift(steps[below] - total, 22) + 127, -128)
    return np.asarray(np.clip(q, -128, 127), np.int8).reshape(x.shape)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    (x,) = inputs
    if x.dtype == np.int8:
        return [_int8(node, x)]
    below = x - x.max(axis=-1, keepdims=True)
    return [below - np.log(np.exp(below).sum(axis=-1, keepdims=True))]


def lower(node: Node, target: Target) -> Call:
    x, y = node.input(0), node.output
    params: dict[str, Param] = {"axis": last_axis(x.shape)}
    if x.type == "FLOAT32":
        return Call("tw_log_softmax_f32", params, (x,), (y,), inplace=(0,))
    _, (mult, shift), radius = _scaling(node)
    params |= {"seen": radius + 1, "mult": mult, "shift": shift}
    tables = (table(values.astype(np.int32)) for values in _tables(node))
    return Call("tw_log_softmax_s8", params, (x, *tables), (y,), inplace=(0,))


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for shape in ((1,), (7,), (2, 10), (3, 2, 33), (1, 300)):
        yield Case(Node("LOG_SOFTMAX", (tensor(shape),), (tensor(shape, name="y"),)), tolerance=3e-6)
        for scale in (1e-4, 0.001, 0.0235, 0.1, 0.5, 3.0):
            y = tensor(shape, "INT8", 16 / 256, 127, name="y")
            yield Case(Node("LOG_SOFTMAX", (tensor(shape, "INT8", scale, 3),), (y,)))
    x, y = tensor((1, 4095), "INT8", 0.1, 3), tensor((1, 4095), "INT8", 16 / 256, 127, name="y")
    yield Case(Node("LOG_SOFTMAX", (x,), (y,)), (np.full((1, 4095), 7, np.int8),))
    for scale in (31.9, 32.0, 1e9, 2.0**-25.9, 2.0**-25, 2.0**-24.5):
        y = tensor((3, 9), "INT8", 16 / 256, 127, name="y")
        yield Case(Node("LOG_SOFTMAX", (tensor((3, 9), "INT8", scale, 3),), (y,)))


OP = Op("LOG_SOFTMAX", infer, reference, lower, cases, uint8="computes")
