"""DIV, POW and SQUARED_DIFFERENCE, with broadcasting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.runtime.fixed_point import multiply_high, quantize_multiplier, requantize, round_shift, wrap32
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import SUFFIX, Case, Op, Shape, unsupported
from twinfer.runtime.ops.core.activation import output_range
from twinfer.runtime.ops.core.broadcast import SHAPES, binary_case, broadcast_call, infer_binary, infer_quantized
from twinfer.runtime.ops.core.gemmlowp import one_over_one_plus
from twinfer.runtime.ops.core.unsigned import is_unsigned
from twinfer.runtime.ops.functions._unary import INT8
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

LEFT_SHIFTS = {"INT8": 7, "INT16": 0}  # bits by which SQUARED_DIFFERENCE shifts its operands left

_ENDLESS = 1 << 16  # beyond any clamp of int8 and int16


def _ratio(node: Node) -> tuple[int, int]:
    """Source: TFLM div.cc, CalculateOpDataDiv (float64), for int16 and uint8 LiteRT's (float32)."""
    kind = np.float64 if node.output.type == "INT8" and not is_unsigned(node) else np.float32
    a, b, y = (kind(t.scale) for t in (node.input(0), node.input(1), node.output))
    with np.errstate(all="ignore"):
        return quantize_multiplier(min(float(a / (b * y)), 2.0**31))


def _infer_div(node: Node) -> list[Shape]:
    shapes = infer_quantized(node, "INT8", "INT16", "FLOAT32", "INT32")
    output_range(node)
    if node.output.type == "INT8" and _ratio(node)[1] > 23:
        raise unsupported(node, f"the scale of {node.output} is too small beside its inputs'; requantise the model")
    return shapes


def _infer_squared(node: Node) -> list[Shape]:
    shapes = infer_quantized(node, "INT8", "INT16", "FLOAT32", "INT32")
    if node.output.type in LEFT_SHIFTS and _multipliers(node)[2][1] > 0:
        raise unsupported(node, f"the scale of {node.output} is too small beside its inputs'; requantise the model")
    return shapes


def _multipliers(node: Node) -> list[tuple[int, int]]:
    """Multipliers of both operands and the result. Source: TFLM squared_difference.cc, SquaredDifferencePrepare."""
    a, b, y = node.input(0).scale, node.input(1).scale, node.output.scale
    common = 2 * max(a, b)
    return [
        quantize_multiplier(r)
        for r in (a / common, b / common, common * common / ((1 << 2 * LEFT_SHIFTS[node.output.type]) * y))
    ]


def _headroom(x: Array) -> Array:
    """How many bits each value can be shifted left by; none is 0."""
    bits = [32 - int(2 * v if v > 0 else -2 * v - 1).bit_length() for v in x.ravel()]
    return np.array(bits, np.int64).reshape(x.shape)


def _div_fixed(node: Node, a: Array, b: Array) -> Array:
    """Source: TFLM reference/div.h, DivElementwise; of int16: LiteRT's. Division by zero, saturates."""
    mult, shift = _ratio(node)
    a, b = np.broadcast_arrays(a.astype(np.int64) - node.input(0).zero, b.astype(np.int64) - node.input(1).zero)
    plain = (a != 0) & (b != 0)
    top, whole = np.where(plain, a * np.sign(b), 1), np.where(plain, np.abs(b), 1)
    lead = _headroom(whole) + 1
    inverse = one_over_one_plus((whole << lead) & ((1 << 31) - 1))
    headroom = _headroom(top)
    quotient = multiply_high(top << headroom, inverse)
    right = 31 - lead + headroom - shift
    steps = np.where(right < 0, np.sign(a * b) * _ENDLESS, 0)
    steps = np.where(
        (right > 31) | (right < 0), steps, round_shift(multiply_high(quotient, mult), np.clip(right, 0, 31))
    )
    return np.where(plain, steps, np.sign(a) * _ENDLESS) + node.output.zero


def _div_int32(a: Array, b: Array) -> Array:
    ends = np.where(a == 0, 0, np.where(a > 0, 2**31 - 1, -(2**31)))
    by = np.where(b == 0, 1, b)
    return np.where(b == 0, ends, np.sign(a) * np.sign(by) * (np.abs(a) // np.abs(by)))  # the clamp saturates


def _div(node: Node, inputs: list[Any]) -> list[Array]:
    a, b = inputs
    low, high = output_range(node).values()
    if a.dtype == np.float32:
        with np.errstate(all="ignore"):
            return [np.asarray((a / b).clip(low, high))]
    wide = (a.astype(np.int64), b.astype(np.int64))
    quotient = _div_int32(*wide) if a.dtype == np.int32 else _div_fixed(node, *wide)
    return [np.asarray(quotient.clip(low, high).astype(a.dtype))]


def _power(a: int, b: int) -> int:
    if b < 0:
        return a**-b if abs(a) == 1 else 0
    return pow(a, b, 1 << 32)


def _pow(node: Node, inputs: list[Any]) -> list[Array]:
    a, b = inputs
    if a.dtype == np.float32:
        with np.errstate(all="ignore"):
            return [np.asarray(np.power(a.astype(np.float64), b.astype(np.float64)), np.float32)]
    powers = np.vectorize(_power, otypes=[np.int64])(*np.broadcast_arrays(a.astype(object), b.astype(object)))
    return [np.asarray(powers).astype(np.int32)]


def _squared(node: Node, inputs: list[Any]) -> list[Array]:
    """Source: TFLM squared_difference.cc."""
    a, b = inputs
    left = LEFT_SHIFTS.get(node.output.type)
    if left is None:
        with np.errstate(all="ignore"):
            return [np.asarray(np.square(a - b))]
    info = np.iinfo(a.dtype)
    by_a, by_b, by_y = _multipliers(node)
    m = requantize((a.astype(np.int64) - node.input(0).zero) << left, *by_a)
    n = requantize((b.astype(np.int64) - node.input(1).zero) << left, *by_b)
    steps = requantize(np.square(m - n), *by_y) + node.output.zero
    return [np.asarray(wrap32(steps).clip(info.min, info.max).astype(a.dtype))]


def lower(node: Node, target: Target) -> Call:
    a, b, y = node.input(0), node.input(1), node.output
    params: dict[str, Param] = dict(output_range(node)) if node.op == "DIV" else {}
    if y.type in ("INT8", "INT16"):
        params |= {"a_zero": a.zero, "b_zero": b.zero, "out_zero": y.zero}
        scaling = (
            {"": _ratio(node)} if node.op == "DIV" else dict(zip(("a_", "b_", ""), _multipliers(node), strict=True))
        )
        for prefix, (mult, shift) in scaling.items():
            params |= {f"{prefix}mult": mult, f"{prefix}shift": shift}
    return broadcast_call(f"tw_{node.op.lower()}_{SUFFIX[y.type]}", (a, b), y, params, target, tiles=False)


#: The scale of a is at least 64 times those of b and y multiplied; else TFLM shows the fault that ``FAULT`` describes.
_QUANTS = (
    (0.5, 3, 0.25, -128, 0.02, 1), (0.013, -128, 0.013, 127, 0.01, -128), (1.0, 127, 0.01, -128, 0.9, 127),
    (1e-6, 0, 3e-6, 127, 0.005, 0), (0.1, 4, 0.1, -128, 0.015, -3),
)  # fmt: skip

FAULT = "TFLM and LiteRT shift an int32 by more than 31 bits where a is near 0 and b is large: one step more than 0 / b"


def _some(rng: np.random.Generator, shape: Shape, type: str, zero: int, divisor: bool = False) -> Array:
    """Values to feed; those of a divisor are never zero."""
    if type == "FLOAT32":
        return np.asarray(rng.uniform(0.1, 3, shape) * rng.choice((-1, 1), shape)).astype(np.float32)
    least, most = (-128, 128) if type == "INT8" else (-999, 999)
    q = rng.integers(least, most, shape)
    avoided = -1 if zero > least else 1
    given = np.where(divisor & (q == zero), zero + avoided, q)
    return np.asarray(given, np.int8 if type == "INT8" else np.int32)


def _fed(rng: np.random.Generator, op: str, type: str, shapes: tuple[Shape, Shape], quant: Any = ()) -> Case:
    zeros = (int(quant[1]), int(quant[3])) if quant else (0, 0)
    values = (_some(rng, shapes[0], type, zeros[0]), _some(rng, shapes[1], type, zeros[1], op == "DIV"))
    options: dict[str, Any] = {"fused_activation_function": "NONE"} if op == "DIV" else {}
    oracle = "tflm" if op != "POW" else "litert"
    return binary_case(op, type, shapes, quant, values=values, oracle=oracle, **options)


def _div_cases(rng: np.random.Generator) -> Iterator[Case]:
    for i, shapes in enumerate(SHAPES):
        yield _fed(rng, "DIV", "INT8", shapes, _QUANTS[i % len(_QUANTS)])
        yield _fed(rng, "DIV", "FLOAT32", shapes)
        if i % 3 == 1:
            yield _fed(rng, "DIV", "INT32", shapes)
    a, b = np.repeat(INT8, 255).astype(np.int8), np.tile(np.delete(INT8, 3 + 128), 256).astype(np.int8)
    for i, scales in enumerate(
        ((0.5, -20, 0.25, 3, 0.02, 1), (0.5, 127, 0.5, 3, 0.01, -128), (9.0, 0, 1e-3, 3, 99.0, 5))
    ):
        act = ("NONE", "RELU", "RELU6")[i]
        yield binary_case("DIV", "INT8", (a.shape, a.shape), scales, values=(a, b), fused_activation_function=act)
    for scales in ((0.05, -20, 0.05, 3, 0.05, 1), (1e-6, 0, 9.0, 3, 0.01, 7)):
        case = binary_case("DIV", "INT8", (a.shape, a.shape), scales, values=(a, b), fused_activation_function="NONE")
        yield Case(case.node, case.inputs, "none", FAULT)
    yield from _div_int16_cases(rng)
    for act in ("RELU", "RELU6", "RELU_N1_TO_1"):
        values = (_some(rng, (99,), "FLOAT32", 0), _some(rng, (99,), "FLOAT32", 0))
        yield binary_case("DIV", "FLOAT32", ((99,), (99,)), values=values, fused_activation_function=act)
    for type, kind, zero in (("INT8", np.int8, 3), ("INT32", np.int32, 0), ("FLOAT32", np.float32, 0)):
        top, by = np.array([5, -7, zero, -128, zero]), np.array([0, 0, 0, -2, 2]) + zero
        quant = (0.5, 3, 0.25, 3, 0.7, 1) if type == "INT8" else ()
        values = (top.astype(kind), by.astype(kind))
        case = binary_case("DIV", type, ((5,), (5,)), quant, values=values, fused_activation_function="NONE")
        yield Case(case.node, case.inputs, "none", "by zero: the references abort or give what is not defined")
    ends = (np.array([-(2**31), -(2**31), 2**31 - 1, -(2**31)], np.int32), np.array([-1, 1, -1, 2], np.int32))
    for act in ("NONE", "RELU6"):
        yield binary_case("DIV", "INT32", ((4,), (4,)), values=ends, oracle="litert", fused_activation_function=act)


def _div_int16_cases(rng: np.random.Generator) -> Iterator[Case]:
    """Operands of one shape and of two; b far from 0, near it, and 0. LiteRT's fault is TFLM's (``FAULT``)."""
    scales = (3e-4, 0, 2e-4, 0, 1e-3, 0)
    for i, shapes in enumerate(SHAPES):
        a, b = (rng.integers(-(1 << 15), 1 << 15, s).astype(np.int16) for s in shapes)
        act, fed = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")[i % 4], (a, np.where(b == 0, 1, b).astype(np.int16))
        yield binary_case("DIV", "INT16", shapes, scales, values=fed, oracle="litert", fused_activation_function=act)
    a, b = (rng.integers(least, 1 << 15, (99, 99)).astype(np.int16) for least in (-(1 << 15), 99))
    for shape in ((99, 99), (1, 99)):
        fed, how = (a, b[: shape[0]]), {"oracle": "litert", "fused_activation_function": "NONE"}
        for quant in ((5e-5, 0, 3e-5, 0, 2e-5, 0), (1e-3, 0, 4e-6, 0, 9e-3, 0), (1e-4, 0, 1.0, 0, 1e-8, 0)):
            yield binary_case("DIV", "INT16", (a.shape, shape), quant, values=fed, **how)
    fed = (np.array([5, -7, 0, -32768, 32767], np.int16), np.zeros(5, np.int16))
    case = binary_case("DIV", "INT16", ((5,), (5,)), scales, values=fed, fused_activation_function="NONE")
    yield Case(case.node, case.inputs, "none", "LiteRT refuses to divide by zero")


def _pow_cases(rng: np.random.Generator) -> Iterator[Case]:
    for shapes in SHAPES:
        if len(shapes[0]) < 5:
            bases = np.asarray(rng.uniform(0.1, 3, shapes[0]), np.float32)
            values = (bases, np.asarray(rng.uniform(-3, 3, shapes[1]), np.float32))
            case = binary_case("POW", "FLOAT32", shapes, values=values, oracle="litert")
            yield Case(case.node, case.inputs, case.oracle, tolerance=2e-4)
    odd = np.array([0, -0.0, 1, -1, -2, np.inf, -np.inf, 2], np.float32)
    by = np.array([0, 3, np.inf, 5, 3, -1, 2, 0.5], np.float32)
    yield binary_case("POW", "FLOAT32", ((8,), (8,)), values=(odd, by), oracle="litert")
    bases, by = rng.integers(-7, 8, (9, 33)).astype(np.int32), rng.integers(0, 10, 33).astype(np.int32)
    yield binary_case("POW", "INT32", ((9, 33), (33,)), values=(bases, by), oracle="litert")
    case = binary_case("POW", "INT32", ((9, 33), (33,)))
    yield Case(case.node, None, "none", "LiteRT refuses negative exponents, and goes through double")
    whole = binary_case("POW", "FLOAT32", ((3, 33), ()), oracle="litert")
    cube = replace(whole.node.input(1), data=np.array(3, np.float32))
    node = replace(whole.node, inputs=(whole.node.input(0), cube))
    yield replace(whole, node=node, tolerance=2e-4)


def _squared_cases(rng: np.random.Generator) -> Iterator[Case]:
    for i, shapes in enumerate(SHAPES):
        yield _fed(rng, "SQUARED_DIFFERENCE", "INT8", shapes, _QUANTS[i % 3])
        yield _fed(rng, "SQUARED_DIFFERENCE", "FLOAT32", shapes)
        if i % 3 == 1:
            yield _fed(rng, "SQUARED_DIFFERENCE", "INT32", shapes)
        yield binary_case("SQUARED_DIFFERENCE", "INT16", shapes, (1e-3, 0, 2e-3, 0, (0.9, 0.01, 60.0)[i % 3], 0))
    a, b = np.repeat(INT8, 256).astype(np.int8), np.tile(INT8, 256).astype(np.int8)
    for scales in ((0.5, 3, 0.25, -5, 9.0, 1), (0.01, -128, 0.02, 127, 0.05, -128), (0.02, 4, 1e-4, 0, 0.07, -128)):
        yield binary_case("SQUARED_DIFFERENCE", "INT8", (a.shape, a.shape), scales, values=(a, b))


OPS = (
    Op("DIV", _infer_div, _div, lower, _div_cases, pointwise="exact", uint8="computes"),
    Op("POW", lambda node: infer_binary(node, "FLOAT32", "INT32"), _pow, lower, _pow_cases, pointwise="near"),
    Op("SQUARED_DIFFERENCE", _infer_squared, _squared, lower, _squared_cases, pointwise="exact"),
)
