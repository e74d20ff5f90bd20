"""QUANTIZE: float32 to integers, and integers of one scale to integers of another."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.fixed_point import quantize_multiplier, requantize, wrap32
from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor
from twinfer.runtime.ops.core.quantized import need_quant
from twinfer.runtime.ops.core.unsigned import MARK
from twinfer.runtime.ops.functions._unary import lookup
from twinfer.runtime.program import Call
from twinfer.runtime.rows import ELEMENTS
from twinfer.runtime.target import Target

#: Input type -> output type -> kernel. TFLM has all of them but float32 and uint8 to uint8, and uint8 to int16.
KERNELS = {
    "FLOAT32": {"INT8": "tw_quantize_f32_8", "UINT8": "tw_quantize_f32_8", "INT16": "tw_quantize_f32_s16"},
    "INT8": {
        "INT8": "tw_lut", "UINT8": "tw_lut", "INT16": "tw_quantize_s8_s16", "INT32": "tw_quantize_s8_s32",
    },
    "UINT8": {"INT8": "tw_lut", "UINT8": "tw_lut", "INT16": "tw_quantize_u8_s16"},
    "INT16": {"INT8": "tw_quantize_s16_s8", "INT16": "tw_quantize_s16_s16", "INT32": "tw_quantize_s16_s32"},
    "INT32": {"INT8": "tw_quantize_s32_s8", "INT16": "tw_quantize_s32_s16"},
}  # fmt: skip


def infer(node: Node) -> list[Shape]:
    need(len(node.inputs) == 1 and len(node.outputs) == 1, node, "it needs one input and one output")
    x, y = node.input(0), node.output
    need_type(node, x, *KERNELS)
    need_type(node, y, *KERNELS[x.type])
    need_quant(node, y, *(() if x.type == "FLOAT32" else (x,)))
    return [x.shape]


def _range(y: Tensor) -> tuple[int, int]:
    info = np.iinfo(y.dtype)
    return int(info.min), int(info.max)


def _requantized(node: Node, x: NDArray[np.int64]) -> Array:
    """Source: TFLM reference_ops::Requantize; overflow of int32 wraps."""
    y = node.output
    if node.options.get(MARK) == "CONCATENATION":
        return _rescaled(node, x)
    scaled = requantize(wrap32(x - node.input(0).zero), *quantize_multiplier(node.input(0).scale / y.scale))
    return wrap32(scaled + y.zero).clip(*_range(y)).astype(y.dtype)


def _rescaled(node: Node, x: NDArray[np.int64]) -> Array:
    """An input of a CONCATENATION of uint8 in the scale of its output; x: int8 values.

    Source: LiteRT's reference_ops::ConcatenationWithScaling, in float32 over what was uint8.
    """
    q, y = node.input(0), node.output
    scale = np.float32(q.scale) * (np.float32(1) / np.float32(y.scale))
    steps = (x + 128).astype(np.float32) * scale + np.float32(-q.zero - 128) * scale
    rounded = np.copysign(np.floor(np.minimum(np.abs(steps), 1e6).astype(np.float64) + 0.5), steps)
    return np.asarray((rounded + y.zero).clip(*_range(y)).astype(y.dtype))


def _flips(node: Node) -> bool:
    """Whether int8 and uint8 have the same scale and zero points 128 apart."""
    x, y = node.input(0), node.output
    apart = 128 if y.type == "UINT8" else -128
    return x.type != y.type and x.scale == y.scale and y.zero == x.zero + apart


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Source: TFLM reference_ops::AffineQuantize: divided in float32, rounded half away from zero. Values beyond int32
    saturate and NaN gives the least value; there the result depends on the machine."""
    x, y = inputs[0], node.output
    if x.dtype != np.float32:
        return [_requantized(node, x.astype(np.int64))]
    with np.errstate(over="ignore"):
        steps = (x / np.float32(y.scale)).astype(np.float64)
    rounded = np.copysign(np.floor(np.abs(steps) + 0.5), steps) + y.zero
    low, high = _range(y)
    return [np.where(np.isnan(rounded), low, rounded.clip(low, high)).astype(y.dtype)]


def _inverse(scale: float) -> dict[str, int]:
    """1 / ``scale`` in integers, as quantize.h states it; ``exponent`` 0 where ``scale`` is too small or too large."""
    mantissa, exponent = math.frexp(float(np.float32(scale)))
    reciprocal = min(round((1 << 54) / int(mantissa * (1 << 24))), (1 << 31) - 1)
    return {"reciprocal": reciprocal, "exponent": exponent + 126 + 30 if abs(exponent) <= 100 else 0}


def lower(node: Node, target: Target) -> Call:
    x, y = node.input(0), node.output
    kernel, (low, high) = KERNELS[x.type][y.type], _range(y)
    if kernel == "tw_lut" and _flips(node):
        return Call("tw_flip", {"size": y.size}, (x,), (y,), inplace=(0,), rows=ELEMENTS)
    if kernel == "tw_lut":
        return lookup(node, lambda q: _requantized(node, q & 255 if x.type == "UINT8" else q), target)
    if x.type == "FLOAT32":
        params = {"size": y.size, "zero": y.zero, "low": low - y.zero, "high": high - y.zero, **_inverse(y.scale)}
        return Call(kernel, params | {"scale": y.scale}, (x,), (y,), rows=ELEMENTS)
    mult, shift = quantize_multiplier(x.scale / y.scale)
    params = {"size": y.size, "zero": x.zero, "mult": mult, "shift": shift, "out_zero": y.zero}
    return Call(
        kernel, params | {"low": low, "high": high}, (x,), (y,), inplace=(0,) if x.type == y.type else (), rows=ELEMENTS
    )


def _case(source: Tensor, type: str, scale: float, zero: int, values: Array | None = None, **more: Any) -> Case:
    y = tensor(source.shape, type, scale, zero, name="y")
    return Case(Node("QUANTIZE", (source,), (y,)), None if values is None else (values,), **more)


def _float_cases() -> Iterator[Case]:
    ties = (np.arange(-600, 600) / 4).astype(np.float32)
    near = np.nextafter(np.float32(0.5) + np.arange(-9, 9, dtype=np.float32), np.float32(0))
    values = np.concatenate([ties, near])
    for type, zero in (("INT8", -128), ("INT8", 127), ("INT8", 3), ("INT16", 0), ("INT16", -777), ("UINT8", 128)):
        oracle = "litert" if type == "UINT8" else "tflm"
        for scale in (1.0, 0.3, 1e-3):
            yield _case(tensor(values.shape), type, scale, zero, values, oracle=oracle)
    yield _case(tensor((1,)), "INT8", 40.0, 0)
    odd = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e10, -1e10], np.float32)
    why = "the reference converts values beyond int32, which C++ leaves undefined"
    yield _case(tensor((7,)), "INT8", 1e-3, 5, odd, oracle="none", why=why)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    yield from _float_cases()
    for source, kernels in KERNELS.items():
        if source == "FLOAT32":
            continue
        wide = source in ("INT16", "INT32")
        for scale, out_scale in ((0.1, 0.07), (0.02, 1.3), (0.9, 1e-3)):
            zero = 128 if source == "UINT8" else 0 if wide else int(rng.integers(-128, 128))
            for type in [type for type in kernels if (source, type) != ("UINT8", "INT16")]:
                out_zero = 128 if type == "UINT8" else 0 if type in ("INT16", "INT32") else zero % 256 - 128
                oracle = "litert" if source == type == "UINT8" else "tflm"
                yield _case(tensor((3, 101), source, scale, zero), type, out_scale, out_zero, oracle=oracle)
    same_scale = (
        ("INT8", "UINT8", -128, 0), ("UINT8", "INT8", 0, -128), ("INT8", "UINT8", -128, 3), ("INT16", "INT32", 7, -9),
    )  # fmt: skip
    for source, type, zero, out_zero in same_scale:
        yield _case(tensor((257,), source, 0.5, zero), type, 0.5, out_zero)
    for scale, zero, out_scale in ((0.1, 128, 0.07), (0.02, 3, 1e-4), (0.5, 0, 0.5)):
        yield _case(tensor((3, 101), "UINT8", scale, zero), "INT16", out_scale, 0, oracle="litert")


OP = Op("QUANTIZE", infer, reference, lower, cases, pointwise="exact")
