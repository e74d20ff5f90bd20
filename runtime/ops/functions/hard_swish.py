"""HARD_SWISH: x * min(max(x + 3, 0), 6) / 6."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.fixed_point import quantize_multiplier, round_shift
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op
from twinfer.runtime.ops.core.activation import FLOAT_MAX
from twinfer.runtime.ops.functions._unary import elementwise, float_cases, infer, int8_case, lookup, through_float
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

FINER = "TFLM refuses an output step this much finer, LiteRT shifts by a negative number"

_LOW, _HIGH = -(1 << 15), (1 << 15) - 1


def _multiplier(real: float) -> tuple[int, int]:
    """``real`` as (mult, exponent), real ~ mult * 2**(exponent - 15): quantize_multiplier's, rounded to int16."""
    mult, exponent = quantize_multiplier(real)
    return min((mult + (1 << 15)) >> 16, _HIGH), exponent


def _scales(node: Node) -> tuple[float, float]:
    """Factors from the input, shifted left by 7, to output steps and to steps of 3 / 32768.

    Source: TFLM's HardSwishPrepare.
    """
    fine = np.float32(1 / 128) * np.float32(node.input(0).scale)
    with np.errstate(over="ignore"):
        to_output = float(fine / np.float32(node.output.scale))
    return min(to_output, FLOAT_MAX), float(fine / (np.float32(3) / np.float32(32768)))


def is_finer(node: Node) -> bool:
    """Whether an output step is finer than 1/128 of an input step (``FINER``)."""
    return _multiplier(_scales(node)[0])[1] > 0


def _high_mul(a: Array, b: int) -> Array:
    return np.asarray((a * b + (1 << 14)) >> 15)


def _saturate(x: Array) -> Array:
    return np.clip(x, _LOW, _HIGH)


def _round_shift(x: Array, exponent: int) -> Array:
    """gemmlowp's RoundingDivideByPOT on int16: its mask has 15 bits, further shifts round away from zero."""
    return round_shift(x, exponent) if exponent < 16 else np.where(x < 0, -1, 1)


def _fixed_point(node: Node, q: Array) -> Array:
    """Source: TFLM reference_ops::HardSwish, in int16."""
    to_output, to_gate = _scales(node)
    fine = (q.astype(np.int64) - node.input(0).zero) << 7
    mult, exponent = _multiplier(to_gate)
    gate = _saturate(fine << min(exponent - 1, 30)) if exponent > 0 else fine
    gate = _high_mul(gate, mult)
    gate = _saturate(gate << 1) if exponent > 0 else _round_shift(gate, -exponent)
    gate = (gate + (1 << 15)) >> 1
    mult, exponent = _multiplier(to_output)
    product = gate * _high_mul(fine, mult)
    truncated = np.sign(product) * (np.abs(product) >> 15)
    return np.asarray(np.clip(_round_shift(truncated, -exponent) + node.output.zero, -128, 127), np.int8)


def _real(x: Array) -> Array:
    return np.asarray(x * np.clip(x + 3, 0, 6) / 6)


def _int8(node: Node, q: Array) -> Array:
    """Fixed point; through float if an output step is finer than 1/128 of an input step."""
    if is_finer(node):
        return through_float(node, q, _real)
    return _fixed_point(node, q)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    (x,) = inputs
    return [_int8(node, x) if x.dtype == np.int8 else _real(x)]


def lower(node: Node, target: Target) -> Call:
    if node.input(0).type == "FLOAT32":
        return elementwise(node, "tw_hard_swish_f32")
    return lookup(node, lambda q: _int8(node, q), target)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    yield from float_cases("HARD_SWISH", 0.0)
    for x, y in (
        ((0.05, 3), (0.03, -20)), ((0.05, 3), (0.05, 3)), ((0.0235, -128), (0.0235, -112)), ((0.01, 127), (0.3, -128)),
        ((0.03, 0), (0.0004, 127)), ((1.0, 5), (1.0, -5)), ((50.0, -3), (7.0, 100)), ((1e-5, 3), (1e-5, 0)),
        ((0.002, -128), (1.57, 0)),
    ):  # fmt: skip
        yield int8_case("HARD_SWISH", x, y)
    for in_scale, out_scale in ((10.0, 0.01), (2.0**90, 2.0**-90)):
        x, y = (in_scale, 3), (out_scale, -20)
        yield int8_case("HARD_SWISH", x, y, "none", FINER)


OP = Op("HARD_SWISH", infer, reference, lower, cases, pointwise="exact", uint8="computes")
