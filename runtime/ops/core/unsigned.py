"""Nodes of uint8 that run as int8 (runtime/passes/unsigned.py): how they are known; how LiteRT multiplies their scales.

A uint8 value q with zero point z is the int8 value q - 128 with zero point z - 128. The sums of both are the same; what
differs is how some of LiteRT's reference kernels of uint8 round, and in which type they multiply scales.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.graph import Array, Node, Tensor

#: The option that a node of uint8 gets when it becomes one of int8: True, or the operator that a QUANTIZE is part of.
MARK = "unsigned"

#: The option of a conversion that is not the file's: planning put it before or behind a node of uint8.
ADDED = "added"

#: The option of a node whose output is a table of its input's bytes (runtime/passes/stacking.py): a ``Stacked``.
STACKED = "stacked"


def is_added(node: Node) -> bool:
    """Whether planning put the node in; it bears the number of the file's node that it serves."""
    return bool(node.options.get(ADDED, False))


def is_unsigned(node: Node) -> bool:
    """Whether the node was one of uint8."""
    return bool(node.options.get(MARK, False))


def product(node: Node, a: float, b: float) -> float:
    """The product of two scales, which LiteRT's kernels of uint8 round to float32."""
    return float(products(node, a, np.array(b)))


def products(node: Node, a: float, b: NDArray[np.float64]) -> NDArray[np.float64]:
    """``product`` of one scale and several."""
    return (np.float32(a) * b.astype(np.float32)).astype(np.float64) if is_unsigned(node) else a * b


def ratio(node: Node, a: float, b: float) -> float:
    """The quotient of two scales, which LiteRT's kernels of uint8 round to float32."""
    return float(np.float32(a) / np.float32(b)) if is_unsigned(node) else a / b


def weight_zero(w: Tensor) -> int:
    """The zero point of int8 weights, 0 for others; several are all the same or 0 (``infer`` has checked)."""
    return int(w.quant.zero_point[0]) if w.type == "INT8" and w.quant is not None else 0


def less_zero(w: Array, zero: int) -> Array:
    """Weights less their zero point, which may take nine bits: int16, or as they are if it is 0."""
    return w.astype(np.int16) - np.int16(zero) if zero else w
