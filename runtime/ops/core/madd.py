"""Products of float32 that are added: rounded apart or, in nodes that ``passes/fusing.py`` marks, fused."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.graph import Array, Node

#: The option of a node whose products are fused.
FUSED = "fused_products"


def is_fused(node: Node) -> bool:
    return bool(node.options.get(FUSED))


def float_kernel(stem: str, node: Node) -> str:
    """The kernel of a family that suits the node."""
    return f"{stem}_fused_f32" if is_fused(node) else f"{stem}_f32"


def madd(a: Array, b: Array, c: Array, fused: bool = False) -> Array:
    """``a * b + c``; fused, of float32, it is rounded once.

    A product of two float32 is exact in float64. Their sum is rounded to odd there: an inexact one whose last bit is
    even moves towards the exact one, so that the second rounding, to float32, gives what one rounding would. Source:
    Boldo and Melquiond, Emulation of FMA and correctly rounded sums, 2008.
    """
    if not fused:
        return np.asarray(c + a * b)
    product, addend = a.astype(np.float64) * b, c.astype(np.float64)
    total = np.asarray(product + addend)
    added = total - product
    rest = (product - (total - added)) + (addend - added)  # NaN if the sum is infinite
    bits = total.view(np.int64)
    move = ((rest > 0) | (rest < 0)) & (bits % 2 == 0)
    bits += np.where(move, np.where((rest > 0) == (total > 0), 1, -1), 0)
    return total.astype(np.float32)
