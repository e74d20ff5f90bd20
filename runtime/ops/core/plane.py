"""A quantised sum of two int8 operands as one plane over them, proven equal for all 65,536 pairs."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.graph import Array
from twinfer.runtime.ops.functions._unary import INT8

_STEPS = sorted((abs(i) + abs(j), i, j) for i in range(-2, 3) for j in range(-2, 3))


def plane(exact: Array, a_slope: float, b_slope: float) -> dict[str, int] | None:
    """The params ``a_mult``, ``b_mult``, ``offset`` and ``shift`` of the plane that gives ``exact``; None if none does.

    For every int8 pair, ``(a * a_mult + b * b_mult + offset) >> shift`` is ``exact[a + 128, b + 128]``, both clamped to
    int8, and the sum fits int32. ``exact`` is int64 [256, 256], close to a plane of these slopes. Each pair allows an
    interval of offsets; multipliers near the slopes are tried until all intervals meet. They may never meet: rounding
    twice bends a plane, and the scales may lie too far apart.
    """
    shift = 31 - int(np.abs(exact).max() + 1).bit_length()
    if shift < 1:
        return None
    least = np.where(exact <= -128, -(1 << 40), exact << shift)
    most = np.where(exact >= 127, 1 << 40, (exact + 1 << shift) - 1)
    for _, i, j in _STEPS:
        a_mult, b_mult = round(a_slope * (1 << shift)) + i, round(b_slope * (1 << shift)) + j
        level = INT8[:, None] * a_mult + INT8 * b_mult
        low = max(int((least - level).max()), -(1 << 31) - int(level.min()))
        high = min(int((most - level).min()), (1 << 31) - 1 - int(level.max()))
        if low <= high:
            offset = (low + high) // 2
            return {"a_mult": a_mult, "b_mult": b_mult, "offset": offset, "shift": shift}
    return None
