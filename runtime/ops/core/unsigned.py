"""Nodes of uint8 that run as int8 (runtime/passes/unsigned.py): how they are known; how LiteRT multiplies their scales.

A uint8 value q with zero point z is the int8 value q - 128 with zero point z - 128. The sums of both are the same; what
differs is how some of LiteRT's reference kernels of uint8 round, and in which type they multiply scales.
"""

from __future__ import annotations

from math import frexp, ldexp
from typing import Any

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


def rounded(sums: NDArray[Any], scale: float) -> NDArray[np.float64]:
    """Sums of a FULLY_CONNECTED of uint8 as LiteRT 2.3 scales them: in float64, rounded half away from zero."""
    scaled = sums * scale
    return np.copysign(np.floor(np.minimum(np.abs(scaled), 1e6) + 0.5), scaled)


def in_integers(scale: float, reach: int) -> tuple[int, int] | None:
    """Two integers, mult and right, that scale sums up to ``reach`` as ``rounded`` does, but for what int8 clamps.

    Sums times mult over 2**(32 + right) are rounded half up. Both ways of scaling rise with the sum, so they agree
    everywhere if they agree on both sides of each of the 511 places where an output may change. None if no such
    integers are found.
    """
    shift = min(31 - frexp(scale)[1], 62)  # mult takes 31 bits
    if not 0 < scale * reach < 1 << 30 or shift < 33:
        return None
    steps = np.arange(-255, 256)
    nearest = np.round((np.abs(steps) - 0.5) * np.sign(steps) / scale)
    sums = np.unique((nearest[:, None] + np.arange(-2, 3)).clip(-reach, reach)).astype(np.int64)
    wanted, near = rounded(sums, scale), round(ldexp(scale, shift))
    for mult in (near, near + 1, near - 1):
        if mult < 1 << 31 and np.array_equal((sums * mult + (1 << shift - 1)) >> shift, wanted):
            return mult, shift - 32
    return None
