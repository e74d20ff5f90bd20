"""LOGISTIC and TANH of int16 by one table of the logistic function: what kernels_c/elementwise/sigmoid.h computes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.graph import Node
from twinfer.runtime.op import Array, unsupported

#: The only quantisation of an output.
OUTPUT = (1 / (1 << 15), 0)


def table() -> NDArray[np.uint16]:
    """2^16 / (1 + exp(-i / 24)) for i = 0..255, raised by half of what interpolation is short of in the middle.

    That is how TFLM's sigmoid_table_uint16 comes about; the last is the limit.
    """
    i = np.arange(255)
    at, between, after = ((1 << 16) / (1 + np.exp(-(i + d) / 24)) for d in (0, 0.5, 1))
    rounded = np.floor(at + (between - (at + after) / 2) / 2 + 0.5)
    return np.append(rounded, (1 << 16) - 1).astype(np.uint16)


def check(node: Node) -> None:
    """UnsupportedOperatorError unless TFLM knows how to scale: 15 fractional bits out, an input scale below 2.67."""
    x, y = node.input(0), node.output
    if (y.scale, y.zero) != OUTPUT:
        raise unsupported(node, f"{y} must have scale 1/32768 and zero point 0, as TFLite defines it: requantise it")
    if scaling(node)[0] > (1 << 15) - 1:
        raise unsupported(node, f"the scale {x.scale} of {x} is beyond what TFLM's kernel multiplies by: requantise it")


def scaling(node: Node) -> tuple[int, int]:
    """Multiplier and right shift that make 2^17 of 32/3. Source: TFLM's LogisticPrepare and TanhPrepare."""
    scale = np.float32(node.input(0).scale)
    log2 = math.log2(scale)
    shift = 12 + round(log2)
    if abs(log2 - round(log2)) < 1e-3 and shift in ((0, 1) if node.op == "TANH" else (0,)):
        return 3 << shift, 0
    shift, real = 0, float(scale) * 4096 * 3
    while real <= 32767 / 2 and shift <= 30:
        shift, real = shift + 1, real * 2
    return int(real), shift


def _magnitude(node: Node, x: Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Inputs at the table's scale: their magnitude, and whether they are negative."""
    mult, shift = scaling(node)
    at = (x.astype(np.int64) * mult + ((1 << shift) >> 1)) >> shift
    return np.abs(at), at < 0


def _lookup(magnitude: NDArray[np.int64], bits: int, most: int) -> NDArray[np.int64]:
    values, i = table().astype(np.int64), np.minimum(magnitude >> bits, 254)
    between = (values[i] << bits) + (magnitude & ((1 << bits) - 1)) * (values[i + 1] - values[i])
    return np.where(magnitude >> bits >= 255, most, between)


def logistic(node: Node, x: Array) -> Array:
    """Source: TFLM reference_integer_ops::Logistic of int16."""
    magnitude, negative = _magnitude(node, x)
    upper = _lookup(magnitude, 9, 0x7FFF << 10)
    return (np.where(negative, (1 << 25) - upper + 511, upper + 512) >> 10).astype(np.int16)


def tanh(node: Node, x: Array) -> Array:
    """Source: TFLM reference_integer_ops::Tanh of int16."""
    magnitude, negative = _magnitude(node, x)
    above = _lookup(magnitude, 8, 0xFFFF << 8) - (1 << 23)
    return (np.where(negative, 127 - above, 128 + above) >> 8).astype(np.int16)
