"""What LOGISTIC and TANH share; of int16, one table of the logistic function (kernels_c/functions/sigmoid.h)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime import constant
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Shape, unsupported
from twinfer.runtime.ops.core.quantized import need_fixed_quant
from twinfer.runtime.ops.functions import _unary
from twinfer.runtime.program import Call
from twinfer.runtime.rows import ELEMENTS
from twinfer.runtime.target import Target

#: Scales of inputs, for ``cases``.
SCALES_INT8 = (1e-6, 0.001, 0.0235, 0.05, 0.1, 1 / 3, 1.0, math.pi, 15.9, 16.0, 40.0)
SCALES_INT16 = (1e-6, 1 / 4096, 1 / 2048, 0.000244, 0.001, 0.03, 2.6, 2.67, 4.0, 5.33)

#: The greatest multiplier whose products with int16 fit int32.
MOST = (1 << 16) - 1


def infer(node: Node) -> list[Shape]:
    shapes = _unary.infer(node, "INT16")
    if node.input(0).type == "INT16":
        _check_int16(node)
    return shapes


def table() -> NDArray[np.uint16]:
    """2^16 / (1 + exp(-i / 24)) for i = 0..255, raised by half the error of interpolation in the middle.

    TFLM's sigmoid_table_uint16 is built this way; the last value is the limit.
    """
    i = np.arange(255)
    at, between, after = ((1 << 16) / (1 + np.exp(-(i + d) / 24)) for d in (0, 0.5, 1))
    rounded = np.floor(at + (between - (at + after) / 2) / 2 + 0.5)
    return np.append(rounded, (1 << 16) - 1).astype(np.uint16)


def _check_int16(node: Node) -> None:
    """UnsupportedOperatorError unless TFLM knows how to scale: 15 fractional bits out, an input scale below 5.33."""
    x = node.input(0)
    need_fixed_quant(node, node.output, 1 << 15, 0)
    if scaling(node)[0] > MOST:
        raise unsupported(
            node, f"the scale {x.scale} of {x} is beyond {MOST} / 12288, where TFLM's products wrap: requantise it"
        )


def scaling(node: Node) -> tuple[int, int]:
    """Multiplier and right shift that map 32/3 to 2^17. Source: TFLM's LogisticPrepare and TanhPrepare."""
    scale = np.float32(node.input(0).scale)
    log2 = math.log2(scale)
    shift = 12 + round(log2)
    if abs(log2 - round(log2)) < 1e-3 and shift in ((0, 1) if node.op == "TANH" else (0,)):
        return 3 << shift, 0
    shift, real = 0, float(scale) * 4096 * 3
    while real <= 32767 / 2 and shift <= 30:
        shift, real = shift + 1, real * 2
    return int(real), shift


def scaled(node: Node, x: Array) -> NDArray[np.int64]:
    """Inputs in steps of the table."""
    mult, shift = scaling(node)
    return np.asarray((x.astype(np.int64) * mult + ((1 << shift) >> 1)) >> shift)


def _lookup(magnitude: NDArray[np.int64], bits: int, most: int) -> NDArray[np.int64]:
    values, i = table().astype(np.int64), np.minimum(magnitude >> bits, 254)
    between = (values[i] << bits) + (magnitude & ((1 << bits) - 1)) * (values[i + 1] - values[i])
    return np.where(magnitude >> bits >= 255, most, between)


def logistic(at: NDArray[np.int64]) -> NDArray[np.int64]:
    """With 15 fractional bits; 2^9 of ``at`` are one step of the table.

    Source: TFLM reference_integer_ops::Logistic of int16.
    """
    upper = _lookup(np.abs(at), 9, 0x7FFF << 10)
    return np.asarray(np.where(at < 0, (1 << 25) - upper + 511, upper + 512) >> 10)


def tanh(at: NDArray[np.int64]) -> NDArray[np.int64]:
    """With 15 fractional bits; 2^8 of ``at`` are one step of the table.

    Source: TFLM reference_integer_ops::Tanh of int16.
    """
    above = _lookup(np.abs(at), 8, 0xFFFF << 8) - (1 << 23)
    return np.asarray(np.where(at < 0, 127 - above, 128 + above) >> 8)


def lower(node: Node, kernel: str, int8: Callable[[Node, Array], Array], target: Target) -> Call:
    """The call of ``kernel`` with the end for the type of the input; ``int8`` maps stored values."""
    type = node.input(0).type
    if type == "FLOAT32":
        return _unary.elementwise(node, f"{kernel}_f32")
    if type == "INT16":
        return _lower_int16(node, f"{kernel}_s16")
    return _unary.lookup(node, lambda q: int8(node, q), target)


def _lower_int16(node: Node, kernel: str) -> Call:
    """The call of a kernel with ``tw_sigmoid_s16_params``."""
    mult, shift = scaling(node)
    params = {"size": node.output.size, "mult": mult, "shift": shift}
    return Call(kernel, params, (node.input(0), constant.table(table())), (node.output,), inplace=(0,), rows=ELEMENTS)
