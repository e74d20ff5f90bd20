"""SOFTMAX: exp(beta * x) over its sum, along the last dimension."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.constant import table
from twinfer.runtime.fixed_point import multiply_high, quantize_multiplier, requantize, round_shift, wrap32
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, tensor, unsupported
from twinfer.runtime.ops.core.axis import last_axis, normalized
from twinfer.runtime.ops.core.gemmlowp import exp_of_negative, input_radius, one_over_one_plus
from twinfer.runtime.ops.core.lookup import lookup_s16, table_s16
from twinfer.runtime.ops.core.quantized import need_fixed_quant, need_quant, need_symmetric
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

#: Type -> steps per 1 and zero point of an output.
_OUTPUTS = {"INT8": (256, -128), "INT16": (1 << 15, 0)}

#: Most int16 values whose exponentials' sum is sure to fit int32.
MOST_INT16 = (1 << 16) - 1

#: Most int8 values whose exponentials' sum is sure to be below 512, which TFLM asks for and int16 results need.
MOST_INT8 = 511

#: Differences of int16 values are counted in steps of this size. From the second number on, scale * beta would shift
#: them left by more than 15 bits, which int32 has no room for.
_STEP = 10.0 / 65535.0
_STEEPEST = _STEP * (1 << 15)


def _beta(node: Node) -> float:
    return float(node.options.get("beta", 1.0))


def infer(node: Node) -> list[Shape]:
    x, y = normalized(node, "FLOAT32", "INT8", "INT16", wide=True)
    need(0 <= _beta(node) < math.inf, node, f"beta {_beta(node)} must be finite and not negative")
    if x.type != y.type:
        _check_widened(node)
    elif x.type in _OUTPUTS:
        need_symmetric(node, x, y)
        need_fixed_quant(node, y, *_OUTPUTS[x.type])
    if x.type == "INT16":
        _check_int16(node)
    return [x.shape]


def _check_widened(node: Node) -> None:
    """Raise unless int16 results of int8 have TFLM's only quantisation: nearly 2^16 steps per 1 (2^16 - 1 in files)."""
    x, y = node.input(0), node.output
    need_quant(node, x, y)
    if abs(y.scale * (1 << 16) - 1) > 1e-3 or y.zero != -(1 << 15):
        raise unsupported(node, f"{y} must have scale 1/65536 and zero point -32768 behind int8: requantise it")
    if x.shape[-1] > MOST_INT8:
        raise unsupported(node, f"the sum over {x.shape[-1]} values of {x} may reach 512, where TFLM aborts: split it")


def _check_int16(node: Node) -> None:
    """Raise unless sums, and differences shifted left for their multiplier, fit int32."""
    x = node.input(0)
    if x.shape[-1] > MOST_INT16:
        raise unsupported(node, f"the sum over {x.shape[-1]} values of {x} may not fit int32: split it")
    if _multiplier_int16(node)[1] > 15:
        raise unsupported(
            node,
            f"{x} has scale {x.scale}, which times beta {_beta(node)} must be below {_STEEPEST:.6f} for differences to "
            "fit int32: quantise it by a smaller range",
        )


def _exp(node: Node, steps: Array) -> Array:
    """exp(beta * scale * steps) with 31 fractional bits for steps <= 0; 0 for steps that TFLM does not count.

    Source: TFLM softmax_common.cc and PreprocessSoftmaxScaling; the exponent is in Q5.
    """
    real = min(_beta(node) * node.input(0).scale * (1 << 26), (1 << 31) - 1.0)
    mult, shift = quantize_multiplier(real)
    seen = steps >= -input_radius(5, shift)
    return np.where(seen, exp_of_negative(requantize(np.where(seen, steps, 0), mult, shift), 5), 0)


def _headroom(total: Array) -> Array:
    """How many bits above each sum are free in 32, [rows, 1]."""
    return np.array([32 - int(t).bit_length() for t in total[:, 0]], np.int64)[:, None]


def _reference_int8(node: Node, x: Array) -> Array:
    """Source: TFLM reference_ops::Softmax; results have 8 bits, or 16 where the output is int16."""
    info = np.iinfo(node.output.dtype)
    rows = x.reshape(-1, x.shape[-1]).astype(np.int64)
    exps = _exp(node, rows - rows.max(axis=1, keepdims=True))
    total = round_shift(exps, 12).sum(axis=1, keepdims=True)  # 19 fractional bits
    headroom = _headroom(total)
    scale = one_over_one_plus((total << np.maximum(headroom, 0)) - (1 << 31))
    right = np.minimum(43 - info.bits - headroom, 31)
    q = np.where(headroom < 4, 0, round_shift(multiply_high(scale, exps), right))
    return np.asarray(np.clip(q + info.min, info.min, info.max), info.dtype).reshape(x.shape)


def _tables() -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    """exp from -10 to 0, and 1 / (1 + x) from 0 to 1."""
    exps = table_s16(lambda x: np.exp(x.astype(np.float64)).astype(np.float32), -10, 0, 1 << 15)
    return exps, table_s16(lambda x: np.float32(1) / (np.float32(1) + x), 0, 1, 1 << 15)


def _multiplier_int16(node: Node) -> tuple[int, int]:
    """Multiplier and shift that map a difference of 10 to 65535. Source: TFLM's CalculateSoftmaxParams."""
    return quantize_multiplier(node.input(0).scale * _beta(node) / _STEP)


def _reference_int16(node: Node, x: Array) -> Array:
    """Source: TFLM reference_ops::SoftmaxInt16."""
    rows = x.reshape(-1, x.shape[-1]).astype(np.int64)
    exp, reciprocal = _tables()
    scaled = requantize(rows - rows.max(axis=1, keepdims=True), *_multiplier_int16(node))
    exps = lookup_s16(exp, wrap32(scaled + 32767))
    total = exps.sum(axis=1, keepdims=True)
    headroom = _headroom(total)
    shifted = ((total << (headroom - 1)) + (1 << 13)) >> 14
    scale, right = lookup_s16(reciprocal, shifted - (1 << 15) - (1 << 16)), 31 - headroom
    q = (exps * scale + (np.int64(1) << (right - 1))) >> right
    return np.asarray(q.clip(0, (1 << 15) - 1), np.int16).reshape(x.shape)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    (x,) = inputs
    if x.dtype == np.int8:
        return [_reference_int8(node, x)]
    if x.dtype == np.int16:
        return [_reference_int16(node, x)]
    exps = np.exp((x - x.max(axis=-1, keepdims=True)) * np.float32(_beta(node)))
    return [exps / exps.sum(axis=-1, keepdims=True)]


def lower(node: Node, target: Target) -> Call:
    x, y = node.input(0), node.output
    params: dict[str, Param] = {"axis": last_axis(x.shape)}
    if x.type == "FLOAT32":
        return Call("tw_softmax_f32", params | {"beta": _beta(node)}, (x,), (y,), inplace=(0,))
    if x.type == "INT16":
        mult, shift = _multiplier_int16(node)
        tables = [table(values) for values in _tables()]
        return Call("tw_softmax_s16", params | {"mult": mult, "shift": shift}, (x, *tables), (y,), inplace=(0,))
    exps = _exp(node, -np.arange(256)).astype(np.uint32)
    exps[exps < 1 << 11] = 0  # less than half a step of the sum, and of any result
    exps = exps[: np.count_nonzero(exps) + 1]
    params["last"] = len(exps) - 1
    if y.type == "INT16":
        return Call("tw_softmax_s8_s16", params, (x, table(exps)), (y,))
    return Call("tw_softmax_s8", params, (x, table(exps)), (y,), inplace=(0,))


def _int8_case(
    shape: Shape, scale: float, beta: float = 1.0, values: Array | None = None, oracle: str = "tflm"
) -> Case:
    y = tensor(shape, "INT8", 1 / 256, -128, name="y")
    node = Node("SOFTMAX", (tensor(shape, "INT8", scale, 3),), (y,), {"beta": beta})
    why = "" if oracle != "none" else "TFLM aborts where the sum reaches 512"
    return Case(node, None if values is None else (values,), oracle, why)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for shape in ((1,), (7,), (2, 10), (3, 2, 33), (2, 3, 4, 5), (1, 1, 1, 300)):
        yield _int8_case(shape, 0.1)
        yield Case(Node("SOFTMAX", (tensor(shape),), (tensor(shape, name="y"),), {"beta": 1.0}), tolerance=3e-7)
    for scale in (1e-6, 0.001, 0.0235, 0.5, 3.0, 31.0, 300.0):
        yield _int8_case((4, 12), scale)
        yield _int8_case((4, 12), scale, 0.37)
    for shape in ((1,), (5, 7), (2, 3, 2, 33), (3, 700)):
        for scale in (1e-6, 0.0003, 0.001, 0.3):
            x, y = tensor(shape, "INT16", scale), tensor(shape, "INT16", 1 / 32768, name="y")
            yield Case(Node("SOFTMAX", (x,), (y,), {"beta": 1.0 if scale != 0.001 else 0.37}))
    for shape, scale, per1 in (
        ((1, 2), 0.07, 65535), ((3, 33), 1e-3, 65536), ((2, 511), 0.02, 65536), ((5, 9), 3.0, 65536),
    ):  # fmt: skip
        x, y = tensor(shape, "INT8", scale, 2), tensor(shape, "INT16", 1 / per1, -(1 << 15), name="y")
        yield Case(Node("SOFTMAX", (x,), (y,), {"beta": 1.0}))
        yield Case(Node("SOFTMAX", (x,), (y,), {"beta": 1.0}), (np.full(shape, 7, np.int8),))
    every = np.arange(-(1 << 15), 1 << 15).astype(np.int16).reshape(256, 256)
    x, y = tensor(every.shape, "INT16", 0.01), tensor(every.shape, "INT16", 1 / 32768, name="y")
    yield Case(Node("SOFTMAX", (x,), (y,), {"beta": 1.0}), (every,))
    yield Case(Node("SOFTMAX", (x,), (y,), {"beta": 1.0}), (np.ascontiguousarray(every.T),))
    near = rng.integers(-3, 3, (5, 400)).astype(np.int8)
    yield _int8_case((5, 400), 0.001, values=near)
    yield _int8_case((2, 511), 0.1, values=np.full((2, 511), -7, np.int8))
    yield _int8_case((2, 512), 0.1, values=np.full((2, 512), -7, np.int8), oracle="none")
    yield _int8_case((1, 4100), 0.1, values=np.full((1, 4100), 127, np.int8), oracle="none")
    x, y = tensor((3, 9)), tensor((3, 9), name="y")
    yield Case(Node("SOFTMAX", (x,), (y,), {"beta": 2.5}), tolerance=3e-7)


OP = Op("SOFTMAX", infer, reference, lower, cases, uint8="computes")
