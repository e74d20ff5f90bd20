"""ADD and SUB, with broadcasting and fused activations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from twinfer.runtime.fixed_point import quantize_multiplier, requantize
from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import SUFFIX, Case, Op, Shape, tensor, unsupported
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
from twinfer.runtime.ops.core.plane import plane
from twinfer.runtime.ops.core.quantized import unscaled
from twinfer.runtime.ops.functions._unary import INT8
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept, present

#: Type -> bits by which both operands are shifted left before they are scaled.
LEFT_SHIFTS = {"INT8": 20, "INT16": 15}

TYPES = ("INT8", "INT16", "FLOAT32", "INT32", "INT64")


def _stored(node: Node) -> bool:
    """Whether values are added as they are stored: int16 without scales, which LiteRT's ADD takes."""
    return node.op == "ADD" and unscaled(node)


def infer(node: Node) -> list[Shape]:
    shapes = infer_binary(node, *TYPES) if _stored(node) else infer_quantized(node, *TYPES)
    output_range(node)
    a, b, y = node.input(0), node.input(1), node.output
    if y.type in LEFT_SHIFTS and not _stored(node) and multipliers(a, b, y)[2][1] > 0:
        raise unsupported(node, f"the scale of {y} is too small beside its inputs'; requantise the model")
    return shapes


def multipliers(a: Tensor, b: Tensor, y: Tensor) -> list[tuple[int, int]]:
    """Multiplier and shift of both inputs and the output. Source: TFLM's CalculateOpDataAdd."""
    common = 2 * max(a.scale, b.scale)
    reals = (a.scale / common, b.scale / common, common / ((1 << LEFT_SHIFTS[y.type]) * y.scale))
    return [quantize_multiplier(real) for real in reals]


def sign_of(node: Node) -> int:
    return -1 if node.op == "SUB" else 1


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Source: TFLM reference_integer_ops::Add and reference_ops::Sub: both shifted left, then rescaled once."""
    a, b = inputs
    low, high = output_range(node).values()
    if node.output.type == "FLOAT32":
        with np.errstate(over="ignore", invalid="ignore"):
            total = a + b if sign_of(node) > 0 else a - b
        return [total.clip(low, high)]
    if node.output.type not in LEFT_SHIFTS or _stored(node):
        with np.errstate(over="ignore"):
            return [clamped(a + b if sign_of(node) > 0 else a - b, low, high)]
    a, b = a.astype(np.int64), b.astype(np.int64)
    total = quantized_sum(a, b, node.input(0), node.input(1), node.output, sign_of(node))
    return [total.clip(low, high).astype(node.output.dtype)]


def quantized_sum(a: Array, b: Array, like_a: Tensor, like_b: Tensor, y: Tensor, sign: int) -> Array:
    """a + sign * b before clamping, in steps of ``y``; a and b int64 in steps of ``like_a`` and ``like_b``."""
    by_a, by_b, by_y = multipliers(like_a, like_b, y)
    left = LEFT_SHIFTS[y.type]
    scaled_a = requantize((a - like_a.zero) << left, *by_a)
    scaled_b = requantize((b - like_b.zero) << left, *by_b)
    return requantize(scaled_a + sign * scaled_b, *by_y) + y.zero


def lower(node: Node, target: Target) -> Call:
    a, b, y = node.input(0), node.input(1), node.output
    if node.op == "ADD":
        a, b = commuted(a, b)
    params: dict[str, Param] = {"b_sign": sign_of(node)}
    if _stored(node):
        return broadcast_call("tw_add_stored_s16", (a, b), y, params | output_range(node), target)
    if y.type in LEFT_SHIFTS:
        for prefix, (mult, shift) in zip(("a_", "b_", ""), multipliers(a, b, y), strict=True):
            params |= {f"{prefix}mult": mult, f"{prefix}shift": -shift}
    if y.type == "INT8":
        params |= {"a_zero": a.zero, "b_zero": b.zero, "out_zero": y.zero}
    return broadcast_call(f"tw_add_{SUFFIX[y.type]}", (a, b), y, params | output_range(node), target)


def _lower_plane(node: Node, target: Target) -> Call:
    """One plane over both operands: ``tw_add_plane_s8`` of kernels_c/elementwise/add.h."""
    a, b, y = node.input(0), node.input(1), node.output
    accept(output_range(node) == {"low": -128, "high": 127}, "it has a fused activation")
    if node.op == "ADD":
        a, b = commuted(a, b)
    return broadcast_call("tw_add_plane_s8", (a, b), y, _plane_of(a, b, y, sign_of(node)), target)


def _lower_wide(node: Node, target: Target) -> Call:
    """One plane over both operands: kernels_c/elementwise/add_wide.h."""
    a, b, y = node.input(0), node.input(1), node.output
    if node.op == "ADD":
        a, b = commuted(a, b)
    walk = Walk.of(a, b, target)
    accept(bool(walk.a_step and walk.b_step), "an operand has one value per row")
    flat = _plane_of(a, b, y, sign_of(node))
    offset = (flat["offset"] - 128 * (flat["a_mult"] + flat["b_mult"]) + (1 << 31)) % (1 << 32) - (1 << 31)
    return broadcast_call("tw_add_wide_s8", (a, b), y, {**flat, "offset": offset, **output_range(node)}, target)


def _plane_of(a: Tensor, b: Tensor, y: Tensor, sign: int) -> Mapping[str, int]:
    """The params of a plane that is ``a + sign * b`` in steps of ``y``; Declined if there is none."""
    flat = _plane((a.scale, a.zero), (b.scale, b.zero), (y.scale, y.zero), sign)
    return present(flat, "no plane gives all 65,536 sums")


@lru_cache(512)
def _plane(a: tuple[float, int], b: tuple[float, int], y: tuple[float, int], sign: int) -> Mapping[str, int] | None:
    """Of scales and zero points. It takes milliseconds; models that are loaded again have the same."""
    values, (x, z, out) = INT8.astype(np.int64), (tensor((), "INT8", *quant) for quant in (a, b, y))
    return plane(quantized_sum(values[:, None], values, x, z, out, sign), a[0] / y[0], sign * b[0] / y[0])


def _lower_mve(node: Node, target: Target) -> Call:
    """kernels_c/elementwise/add_mve.h."""
    a, b, y, sign = node.input(0), node.input(1), node.output, sign_of(node)
    if swap := b.scale > a.scale:
        a, b = b, a
    _, (b_mult, b_shift), (mult, shift) = multipliers(a, b, y)
    walk, left = Walk.of(a, b, target), LEFT_SHIFTS["INT8"]
    accept(bool(walk.a_step and walk.b_step), "an operand has one value per row")
    accept(shift < 0, "the sum is not shifted to the right")
    more = left if b_shift < 0 else left + 1  # no shift may be 0: it would round differently
    params: dict[str, Param] = {
        "a_scale": sign << (left - 1), "a_start": -a.zero * sign << (left - 1),
        "b_scale": 1 << more, "b_start": -b.zero << more, "b_mult": b_mult, "b_shift": min(b_shift, -1),
        "out_zero": y.zero, "mult": mult if swap else mult * sign, "shift": shift,
    }  # fmt: skip
    return broadcast_call("tw_add_mve_s8", (a, b), y, params | output_range(node), target)


SCALES = (
    (0.5, 3, 0.25, -5, 0.7, 1), (0.013, -128, 0.013, -128, 0.026, -128), (1.0, 127, 1e-4, -128, 0.9, 127),
    (1e-6, 0, 3e-6, 0, 1e-6, 0), (0.1, 4, 0.1, 4, 30.0, -3), (1e-7, 0, 3.0, 9, 1e-3, 0),
)  # fmt: skip


def _symmetric(scales: Sequence[float]) -> tuple[float, ...]:
    return tuple(value if i % 2 == 0 else 0 for i, value in enumerate(scales))


def cases(op: str, rng: np.random.Generator) -> Iterator[Case]:
    acts = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")
    for i, (a, b) in enumerate(SHAPES):
        yield binary_case(op, "INT8", (a, b), SCALES[i % len(SCALES)], fused_activation_function="NONE")
        yield binary_case(op, "FLOAT32", (a, b), fused_activation_function=acts[i % 4])
        if i % 3 == 1:
            yield binary_case(op, "INT32", (a, b), fused_activation_function="NONE")
        scales = _symmetric(SCALES[(0, 1, 3, 4)[i % 4]])
        yield binary_case(op, "INT16", (a, b), scales, fused_activation_function=acts[i // 2 % 4])
    for i, scales in enumerate(SCALES):
        for act in ("NONE", acts[1 + i % 3]):
            yield binary_case(op, "INT8", ((333,), (333,)), scales, fused_activation_function=act)
    for act in acts[1:]:  # TFLM's ADD does not clamp int32
        values = tuple(rng.integers(-9, 9, 99).astype(np.int32) for _ in range(2))
        yield binary_case(op, "INT32", ((99,), (99,)), values=values, oracle="litert", fused_activation_function=act)
    huge = np.array([3e38, -3e38, np.inf, -np.inf, np.nan, 1, -0.0], np.float32)
    swapped = huge[[0, 1, 2, 3, 5, 4, 6]]
    yield binary_case(op, "FLOAT32", ((7,), (7,)), values=(huge, swapped), fused_activation_function="NONE")
    yield binary_case(op, "INT8", ((2, 1, 2, 1, 3), (1, 2, 1, 2, 1)), SCALES[0], fused_activation_function="NONE")
    constant = tensor((5,), "INT8", 0.2, 7, data=rng.integers(-128, 128, 5), name="c")
    y = tensor((3, 5), "INT8", 0.4, -9, name="y")
    yield Case(Node(op, (constant, tensor((3, 5), "INT8", 0.3, -8)), (y,), {"fused_activation_function": "RELU"}))
    for zero in (-128, 127):  # every output is one end of int8: only int32 bounds a plane's offset
        other = zero if op == "ADD" else ~zero
        scales = (40.1, zero, 20.8, other, 0.37, ~zero)
        yield binary_case(op, "INT8", ((333,), (333,)), scales, fused_activation_function="NONE")
    for type in ("INT64", "INT16") if op == "ADD" else ("INT64",):
        yield from stored_cases(op, type, rng)


OPS = (
    Op("ADD", infer, reference, lower, lambda rng: cases("ADD", rng), pointwise="exact", uint8="computes"),
    Op("SUB", infer, reference, lower, lambda rng: cases("SUB", rng), pointwise="exact", uint8="computes"),
)

VARIANTS = (
    Variant("wide", ("ADD", "SUB"), frozenset({"simd"}), _lower_wide, ("INT8",)),
    Variant("mve", ("ADD", "SUB"), frozenset({"mve"}), _lower_mve, ("INT8",)),
    Variant("words", ("ADD", "SUB"), frozenset({"words"}), _lower_plane, ("INT8",)),
)
