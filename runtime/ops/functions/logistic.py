"""LOGISTIC: 1 / (1 + exp(-x))."""

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

_exp = in_double(np.exp)


def _int8(node: Node, q: Array) -> Array:
    """Fixed point for the output quantisation that it takes (TFLM reference_integer_ops::Logistic), else float."""
    x, y = node.input(0), node.output
    if is_unsigned(node) or (y.scale, y.zero) != (1 / 256, -128):
        return _unary.through_float(node, q, lambda v: 1 / (1 + _exp(-v)))
    steps, saturated = _gemmlowp.to_q4(q.astype(np.int64) - x.zero, x.scale)
    inside = round_shift(_gemmlowp.logistic(steps, 4), 23) - 128
    return np.where(saturated, saturated * 128, np.minimum(inside, 127)).clip(-128, 127).astype(np.int8)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    (x,) = inputs
    if x.dtype == np.int8:
        return [_int8(node, x)]
    if x.dtype == np.int16:
        return [_sigmoid.logistic(_sigmoid.scaled(node, x)).astype(np.int16)]
    return [(1 / (1 + np.exp(np.minimum(-x.astype(np.float64), 700)))).astype(np.float32)]


def lower(node: Node, target: Target) -> Call:
    return _sigmoid.lower(node, "tw_logistic", _int8, target)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    yield from float_cases("LOGISTIC", 2e-7)
    for scale in _sigmoid.SCALES_INT8:
        yield int8_case("LOGISTIC", (scale, int(rng.integers(-128, 128))), (1 / 256, -128))
    yield int8_case("LOGISTIC", (0.05, 127), (1 / 256, 3), "litert")
    yield int8_case("LOGISTIC", (2.0**-10, -128), (1 / 256, -127), "litert")  # a half that only float32 rounds this way
    yield int8_case("LOGISTIC", (0.05, -128), (1 / 128, -128), "none", "TFLM ignores the output scale, LiteRT refuses")
    for scale in _sigmoid.SCALES_INT16:
        yield int16_case("LOGISTIC", scale, 1 / 32768)


OP = Op("LOGISTIC", _sigmoid.infer, reference, lower, cases, pointwise="near", uint8="computes")
