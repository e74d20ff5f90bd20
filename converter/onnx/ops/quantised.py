"""Quantised models: QuantizeLinear, DequantizeLinear, and operators on integers as float operators between the two.

``converter/onnx/integer.py`` turns them into integer operators afterwards. TFLite's integers are int8: uint8 becomes
int8 by taking 128 off values and zero points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx

from twinfer.converter.emit import functions
from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.onnx.node import OnnxNode, positive
from twinfer.converter.onnx.ops import activations, conv, dense, elementwise, move, pool, reduce
from twinfer.converter.onnx.ops.move import BITS, tensor_type
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import DTYPES, EMPTY, LIMITS, Array, Quant, Tensor

Importer = Callable[[Emitter, OnnxNode], Tensor]

#: numpy's names of the types that activations are quantised to.
KINDS = {"u1": "UINT8", "i1": "INT8", "i2": "INT16", "u2": "UINT16"}

#: Floats hold all integers below it.
EXACT = 1 << 24


def quantize(g: Emitter, x: Tensor, scale: Array, zero: Array) -> Tensor:
    """QUANTIZE to the zero point's type; uint8 by way of int8."""
    if scale.size != 1 or zero.size != 1:
        raise UnsupportedOperatorError("activations quantised per channel or block; TFLite has one scale per tensor")
    kind = KINDS.get(zero.dtype.str[1:])
    if kind is None:
        raise UnsupportedOperatorError(f"quantisation to {zero.dtype}; use int8, uint8, int16 or uint16")
    quant = _usable(Quant.per_tensor(float(scale.reshape(-1)[0]), int(zero.reshape(-1)[0])), x)
    if kind == "UINT8":
        return g.quantized("QUANTIZE", g.quantized("QUANTIZE", x, "INT8", as_int8(quant)), "UINT8", quant)
    if kind == "INT8" or (kind == "INT16" and not quant.zero_point.any()):
        return g.quantized("QUANTIZE", x, kind, quant)
    return _quantize_wide(g, x, kind, quant)


def _quantize_wide(g: Emitter, x: Tensor, kind: str, quant: Quant) -> Tensor:
    """QUANTIZE to 16 bits with a zero point, which TFLite has not: to INT16 around 0, whose steps are up to twice as
    large. ``dequantize`` reads that. Whoever reads the integers themselves gets them by ordinary operators."""
    scale, zero, (low, high) = float(quant.scale[0]), int(quant.zero_point[0]), LIMITS[kind]
    if zero == low and not g.nonnegative(x):  # it may stand for a RELU
        x = g.unary("RELU", x)
    middle = zero == 1 << 15 and kind == "UINT16"
    around = Quant.per_tensor(scale if middle else scale * max(high - zero, zero - low) / 32767)
    wide = g.quantized("QUANTIZE", x, "INT16", around)
    real = g.emit("DEQUANTIZE", [wide], x.shape, "FLOAT32")
    steps = g.unary("ROUND", g.binary("MUL", real, functions.number(1 / scale)))
    steps = functions.clamp(g, g.binary("ADD", steps, functions.number(zero)), low, high)
    y = g.cast(g.cast(steps, "INT32"), kind)
    g.wide[y] = wide
    return y


def _usable(quant: Quant, x: Tensor) -> Quant:
    """The quantisation of activations; ModelError for a scale that TFLite has no integers for."""
    if not quant.usable or not quant.scale.all():
        raise ModelError(f"{x} has the scale {quant.scale[0]}; it must be finite and above zero")
    return quant


def as_int8(quant: Quant) -> Quant:
    """The quantisation of the same numbers as int8 instead of uint8."""
    return Quant(quant.scale, quant.zero_point - 128, quant.axis)


def dequantize(g: Emitter, x: Tensor, scale: Array, zero: Array | None, axis: int = 0) -> Tensor:
    """The real values of integers. Constants keep their integers and quantisation beside them."""
    zeros = np.zeros(scale.shape, np.int64) if zero is None else zero.astype(np.int64)
    if x.data is not None:
        return _dequantize(x, scale, zeros, axis)
    if x in g.wide:
        return g.emit("DEQUANTIZE", [g.wide[x]], x.shape, "FLOAT32")
    if scale.size > 1 or x.type not in ("INT8", "UINT8", "INT16") or (x.type == "INT16" and zeros.any()):
        return g.affine(x, scale, zeros, axis)
    quant = _usable(Quant.per_tensor(float(scale.reshape(-1)[0]), int(zeros.reshape(-1)[0])), x)
    g.annotate(x, quant)
    if x.type == "UINT8":
        x = g.quantized("QUANTIZE", x, "INT8", as_int8(quant))
    return g.emit("DEQUANTIZE", [x], x.shape, "FLOAT32")


def _dequantize(x: Tensor, scale: Array, zeros: Array, axis: int) -> Tensor:
    """A float constant that remembers its integers (``extra["stored"]``) and quantisation, see ``integer.py``."""
    stored, data = np.asarray(x.data), np.empty(x.shape, np.float32)
    shape = [-1 if scale.size > 1 and i == axis else 1 for i in range(len(x.shape))]
    zeros = np.broadcast_to(zeros.reshape(-1), scale.reshape(-1).shape)
    steps = stored.astype(np.float64) - zeros.reshape(shape)
    with np.errstate(over="ignore"):
        data[...] = (steps * scale.astype(np.float64).reshape(shape)).reshape(x.shape)
    quant = Quant(scale.reshape(-1).astype(np.float32), zeros.copy(), axis)
    if not np.isfinite(data).all():
        raise ModelError(f"{x} has the scales {quant.scale.tolist()}, which make values of it that are no numbers")
    if not quant.usable or not quant.scale.all():  # the numbers are right, but have no integers in TFLite
        return Tensor(x.name, "FLOAT32", x.shape, data=data)
    if stored.dtype == np.uint8:
        stored, quant = np.asarray(stored.astype(np.int16) - 128, np.int8), as_int8(quant)
    if stored.dtype == np.uint16:
        quant = Quant(quant.scale, quant.zero_point - (1 << 15), axis)
        stored = np.asarray(stored.astype(np.int32) - (1 << 15), np.int16)
    if stored.dtype == np.int16 and quant.zero_point.any():
        return Tensor(x.name, "FLOAT32", x.shape, data=data)
    return Tensor(x.name, "FLOAT32", x.shape, quant, data, extra=MappingProxyType({"stored": stored}))


def quantize_linear(g: Emitter, node: OnnxNode) -> Tensor:
    scale, zero = node.input(1), node.optional(2)
    kind = _code(node) if zero is None else zero.extra.get("narrow", zero.type).upper()
    plain = kind.lower() in BITS or scale.data is None or scale.size != 1
    if not plain and zero is not None and zero.data is not None and kind in ("INT16", "UINT16"):
        low, high = LIMITS[kind]  # mostly negative, such as a mask: around 0 steps would be twice as large
        plain = bool((zero.data.astype(np.int64) - low > 3 * (high - zero.data.astype(np.int64))).any())
    if plain or (zero is not None and zero.data is None) or kind not in KINDS.values():
        return _quantize_computed(g, node, kind)
    zeros = np.zeros(scale.shape, DTYPES[kind]) if zero is None else np.asarray(zero.data)
    return quantize(g, node.input(0), np.asarray(scale.data), zeros)


def _code(node: OnnxNode) -> str:
    code = int(node.attribute("output_dtype", 0))
    name = onnx.TensorProto.DataType.Name(code) if code in onnx.TensorProto.DataType.values() else ""
    return name if name.lower() in BITS else tensor_type(code) if code else "UINT8"


def _quantize_computed(g: Emitter, node: OnnxNode, kind: str) -> Tensor:
    """By ordinary operators: scales of run time, of each channel or block, and types that QUANTIZE lacks."""
    x, zero = node.input(0), node.optional(2)
    limits = _limits(kind)
    node.need(limits[1] < 1 << 16, f"quantisation to {kind}; use int8, uint8, int16 or uint16")
    steps = g.unary("ROUND", g.binary("DIV", x, _spread(g, node, node.input(1), x)))
    if zero is not None and (zero.data is None or zero.data.any()):
        steps = g.binary("ADD", steps, _spread(g, node, g.cast(zero, "FLOAT32"), x))
    steps = g.cast(functions.clamp(g, steps, *limits), "INT32")
    return g.cast(steps, "INT8" if kind.lower() in BITS else kind)


def _limits(kind: str) -> tuple[int, int]:
    """The least and the greatest integer of a type; of a type that is none they are too far apart."""
    if kind.lower() not in BITS:
        return LIMITS.get(kind, (0, 1 << 32))
    count = 1 << BITS[kind.lower()]
    return (0, count - 1) if kind.startswith("U") else (-count // 2, count // 2 - 1)


def _spread(g: Emitter, node: OnnxNode, value: Tensor, x: Tensor) -> Tensor:
    """A scale or zero point as it broadcasts along x: one number, one per element of the axis, or one per block."""
    if value.size == 1:
        return g.reshape(value, ())
    axis, block = positive(node, int(node.attribute("axis", 1)), len(x.shape)), int(node.attribute("block_size", 0))
    if not block or len(value.shape) == 1:
        return g.reshape(value, [value.size if i == axis else 1 for i in range(len(x.shape))])
    places = np.arange(x.shape[axis]) // block
    if value.data is not None:
        return Tensor(f"{value.name}_blocks", value.type, x.shape, data=np.take(value.data, places, axis))
    return g.gather(value, places, axis)


def dequantize_linear(g: Emitter, node: OnnxNode) -> Tensor:
    x, scale, zero = node.input(0), node.input(1), node.optional(2)
    block = int(node.attribute("block_size", 0)) and len(scale.shape) > 1
    if scale.data is None or block or (zero is not None and zero.data is None):
        return _dequantize_computed(g, node)
    axis = positive(node, int(node.attribute("axis", 1)), len(x.shape)) if scale.size > 1 else 0
    return dequantize(g, x, scale.data, None if zero is None else zero.data, axis)


def _dequantize_computed(g: Emitter, node: OnnxNode) -> Tensor:
    """By ordinary operators; constants here."""
    x, scale, zero = node.input(0), node.input(1), node.optional(2)
    if all(t is None or t.data is not None for t in (x, scale, zero)):
        real = np.asarray(x.data, np.float32)
        real = real if zero is None else real - np.asarray(_spread(g, node, zero, x).data, np.float32)
        real = real * np.asarray(_spread(g, node, scale, x).data, np.float32)
        return Tensor(x.name, "FLOAT32", x.shape, data=real)
    steps = g.cast(x, "FLOAT32")
    if zero is not None and (zero.data is None or zero.data.any()):
        steps = g.binary("SUB", steps, _spread(g, node, g.cast(zero, "FLOAT32"), x))
    return g.binary("MUL", steps, _spread(g, node, scale, x))


def _needed(node: OnnxNode, i: int) -> Array:
    value = node.constant(i)
    node.need(value is not None, f"input {i} is missing")
    return np.asarray(value)


def _real(g: Emitter, node: OnnxNode, i: int, axis: int = 0) -> Tensor:
    """Inputs ``i`` (integers), ``i + 1`` (scale) and ``i + 2`` (zero point) as floats."""
    given = (node.input(i), node.input(i + 1), node.optional(i + 2))
    return dequantize_linear(g, _with(node, "DequantizeLinear", axis, given))


def _result(g: Emitter, node: OnnxNode, y: Tensor, i: int) -> Tensor:
    """Quantised by inputs ``i`` (scale) and ``i + 1`` (zero point)."""
    return quantize_linear(g, _with(node, "QuantizeLinear", 0, (y, node.input(i), node.optional(i + 1))))


def _with(node: OnnxNode, op: str, axis: int, inputs: tuple[Tensor | None, ...]) -> OnnxNode:
    return replace(node, op=op, inputs=inputs, attributes={"axis": axis})


def _float(node: OnnxNode, op: str, *inputs: Tensor | None) -> OnnxNode:
    """The node of float operator ``op`` with the same attributes."""
    return replace(node, op=op, inputs=inputs)


def _bias(node: OnnxNode, x_scale: int, w_scale: int, i: int) -> Tensor | None:
    """The int32 bias, whose scale is that of the products."""
    bias = node.optional(i)
    if bias is None:
        return None
    if bias.data is None or node.input(x_scale).data is None or node.input(w_scale).data is None:
        raise UnsupportedOperatorError("a bias with scales that are computed at run time; make them constants")
    scale = _needed(node, x_scale).astype(np.float32) * _needed(node, w_scale).astype(np.float32)
    return _dequantize(bias, scale.reshape(-1), np.zeros(scale.size, np.int64), 0)


def qlinear_conv(g: Emitter, node: OnnxNode) -> Tensor:
    inputs = _real(g, node, 0), _real(g, node, 3), _bias(node, 1, 4, 8)
    float_form = channels_last(conv.conv) if node.attribute("channels_last", 0) else conv.conv
    return _result(g, node, float_form(g, _float(node, "Conv", *inputs)), 6)


def qlinear_matmul(g: Emitter, node: OnnxNode) -> Tensor:
    a, b = _real(g, node, 0, _rows(node, 0)), _real(g, node, 3, len(node.input(3).shape) - 1)
    return _result(g, node, dense.matmul(g, _float(node, "MatMul", a, b)), 6)


def _rows(node: OnnxNode, i: int) -> int:
    return max(len(node.input(i).shape) - 2, 0)


def qgemm(g: Emitter, node: OnnxNode) -> Tensor:
    """QGemm of com.microsoft: the scales of B belong to its columns, or to its rows if it is transposed."""
    b = _real(g, node, 3, 0 if node.attribute("transB", 0) else 1)
    y = dense.gemm(g, _float(node, "Gemm", _real(g, node, 0), b, _bias(node, 1, 4, 6)))
    return y if node.optional(7) is None else _result(g, node, y, 7)


def _qlinear(
    op: str, run: Callable[[Emitter, OnnxNode], Tensor], operands: int = 1
) -> Callable[[Emitter, OnnxNode], Tensor]:
    """An operator of com.microsoft: its inputs are operands with scale and zero point each, then those of the
    result."""

    def emit(g: Emitter, node: OnnxNode) -> Tensor:
        reals = [_real(g, node, 3 * i) for i in range(operands)]
        opset = int(node.attribute("opset", node.opset))  # QLinearSoftmax has its own
        float_form = channels_last(run) if node.attribute("channels_last", 0) else run
        return _result(g, node, float_form(g, replace(_float(node, op, *reals), opset=opset)), 3 * operands)

    return emit


def channels_last(run: Callable[[Emitter, OnnxNode], Any], *places: int) -> Importer:
    """An operator on images [n, *spatial, c], by one on [n, c, *spatial]. ``places``: of its images (0)."""

    def emit(g: Emitter, node: OnnxNode) -> Tensor:
        rank, inputs = len(node.input(0).shape), list(node.inputs)
        for i in places or (0,):
            if i < len(inputs) and inputs[i] is not None:
                inputs[i] = g.transpose(node.input(i), (0, rank - 1, *range(1, rank - 1)))
        y = run(g, replace(node, inputs=tuple(inputs)))
        return g.transpose(y if isinstance(y, Tensor) else y[0], (0, *range(2, rank), 1))

    return emit


def qlinear_concat(g: Emitter, node: OnnxNode) -> Tensor:
    reals = [_real(g, node, i) for i in range(2, len(node.inputs), 3)]
    return _result(g, node, move.concat(g, _float(node, "Concat", *reals)), 0)


def qlinear_where(g: Emitter, node: OnnxNode) -> Tensor:
    reals = _real(g, node, 1), _real(g, node, 4)
    y = elementwise.IMPORTERS["Where"](g, _float(node, "Where", node.input(0), *reals))
    return _result(g, node, y, 7)


def _steps(g: Emitter, node: OnnxNode, i: int, axis: int) -> Tensor:
    """Input ``i`` minus its zero point (input ``i + 2``: one, or one per element of the axis), as floats."""
    zero, x = node.optional(i + 2), node.input(i)
    if zero is not None and zero.data is None:
        shape = [zero.size if d == axis else 1 for d in range(len(x.shape))] if zero.size > 1 else ()
        return g.binary("SUB", g.cast(x, "FLOAT32"), g.reshape(g.cast(zero, "FLOAT32"), shape))
    zeros = np.zeros(1, np.int64) if zero is None else np.asarray(zero.data).reshape(-1).astype(np.int64)
    if x.data is not None:
        real = _dequantize(x, np.ones(zeros.shape, np.float32), zeros, axis)
        return replace(real, quant=None, extra=EMPTY)
    return g.affine(x, np.ones(1, np.float32), zeros, axis)


def _sums(g: Emitter, run: Callable[[Tensor], Tensor], w: Tensor, axes: Sequence[int]) -> Tensor:
    """Products of integers and weights as int32. Floats add integers exactly up to 2**24: where sums may be larger the
    weights' multiples of 16 are multiplied by themselves."""
    axes, count = tuple(axes), math.prod(w.shape[d] for d in axes)
    most = 255.0 * count if w.data is None else float(np.abs(w.data).sum(axes).max(initial=0))
    if most * 255 < EXACT:
        return g.cast(run(w), "INT32")
    if 16 * count * 255 >= EXACT:
        raise UnsupportedOperatorError("integer sums that may pass 2**28; convert the float model and quantise it")
    sixteen = functions.number(16)
    if w.data is None:
        high = g.unary("FLOOR", g.binary("MUL", w, functions.number(1 / 16)))
        low = g.binary("SUB", w, g.binary("MUL", high, sixteen))
    else:
        multiples = np.floor(w.data / sixteen)
        high, low = g.known(multiples), g.known(w.data - multiples * sixteen)
    both = [g.cast(run(part), "INT32") for part in (high, low)]
    return g.binary("ADD", g.binary("MUL", both[0], np.array(16, np.int32)), both[1])


def conv_integer(g: Emitter, node: OnnxNode) -> Tensor:
    x, w = _steps(g, node, 0, 0), _steps(g, node, 1, 0)
    return _sums(g, lambda w: conv.conv(g, _float(node, "Conv", x, w)), w, range(1, len(w.shape)))


def matmul_integer(g: Emitter, node: OnnxNode) -> Tensor:
    a, b = _steps(g, node, 0, _rows(node, 0)), _steps(g, node, 1, len(node.input(1).shape) - 1)
    return _sums(g, lambda b: dense.matmul(g, _float(node, "MatMul", a, b)), b, [_rows(node, 1)])


MICROSOFT = {
    "QGemm": qgemm,
    "QLinearAdd": _qlinear("Add", elementwise.IMPORTERS["Add"], 2),
    "QLinearAveragePool": _qlinear("AveragePool", pool.average_pool),
    "QLinearConcat": qlinear_concat,
    "QLinearConv": qlinear_conv,
    "QLinearGlobalAveragePool": _qlinear("GlobalAveragePool", pool.global_average_pool),
    "QLinearLeakyRelu": _qlinear("LeakyRelu", activations.leaky_relu),
    "QLinearMul": _qlinear("Mul", elementwise.IMPORTERS["Mul"], 2),
    "QLinearReduceMean": _qlinear("ReduceMean", reduce.IMPORTERS["ReduceMean"]),
    "QLinearSigmoid": _qlinear("Sigmoid", activations.IMPORTERS["Sigmoid"]),
    "QLinearSoftmax": _qlinear("Softmax", activations.IMPORTERS["Softmax"]),
    "QLinearWhere": qlinear_where,
    "QuantizeLinear": quantize_linear,
    "DequantizeLinear": dequantize_linear,
}

IMPORTERS: dict[str, Importer] = {
    "ConvInteger": conv_integer,
    "DequantizeLinear": dequantize_linear,
    "MatMulInteger": matmul_integer,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "QuantizeLinear": quantize_linear,
    **{f"com.microsoft:{name}": run for name, run in MICROSOFT.items()},
}
