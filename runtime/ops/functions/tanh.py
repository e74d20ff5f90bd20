"""TANH."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.fixed_point import round_shift
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op
from twinfer.runtime.ops.core import gemmlowp as _gemmlowp
from twinfer.runtime.ops.core.unsigned import is_unsigned
from twinfer.runtime.ops.functions import _sigmoid, _unary
from twinfer.runtime.ops.functions._unary import float_cases, in_double, int8_case, int16_case
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def _int8(node: Node, q: Array) -> Array:
    """Fixed point for the output quantisation that it takes (TFLM reference_integer_ops::Tanh), else float."""
    x, y = node.input(0), node.output
    if is_unsigned(node) or (y.scale, y.zero) != (1 / 128, 0):
        return _unary.through_float(node, q, in_double(np.tanh))
    steps, saturated = _gemmlowp.to_q4(q.astype(np.int64) - x.zero, x.scale)
    inside = round_shift(_gemmlowp.tanh(steps, 4), 24)
    return np.where(saturated, saturated * 128, inside).clip(-128, 127).astype(np.int8)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    (x,) = inputs
    if x.dtype == np.int16:
        return [_sigmoid.tanh(_sigmoid.scaled(node, x)).astype(np.int16)]
    return [_int8(node, x) if x.dtype == np.int8 else np.tanh(x.astype(np.float64)).astype(np.float32)]


def lower(node: Node, target: Target) -> Call:
    return _sigmoid.lower(node, "tw_tanh", _int8, target)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    yield from float_cases("TANH", 2e-7)
    for scale in _sigmoid.SCALES_INT8:
        yield int8_case("TANH", (scale, int(rng.integers(-128, 128))), (1 / 128, 0))
    # TFLM ignores the output's quantisation
    for scale, zero in ((1 / 64, 5), (1 / 128, -128), (0.1, 127), (1e-4, 0)):
        yield int8_case("TANH", (0.05, 3), (scale, zero), "litert")
    for scale in _sigmoid.SCALES_INT16:
        yield int16_case("TANH", scale, 1 / 32768)


OP = Op("TANH", _sigmoid.infer, reference, lower, cases, pointwise="near", uint8="computes")
