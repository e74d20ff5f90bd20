"""The plane over both operands that ADD and SUB of int8 are, where they are one; what their variants share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from twinfer.runtime.graph import Tensor
from twinfer.runtime.op import tensor
from twinfer.runtime.ops.core.plane import plane
from twinfer.runtime.ops.elementwise.add import quantized_sum
from twinfer.runtime.ops.functions._unary import INT8
from twinfer.runtime.variant import present

#: Scale and zero point.
_Quant = tuple[float, int]


def plane_of(a: Tensor, b: Tensor, y: Tensor, sign: int) -> Mapping[str, int]:
    """The params of a plane that is ``a + sign * b`` in steps of ``y``; Declined if there is none."""
    flat = _plane((a.scale, a.zero), (b.scale, b.zero), (y.scale, y.zero), sign)
    return present(flat, "no plane gives all 65,536 sums")


@lru_cache(512)
def _plane(a: _Quant, b: _Quant, y: _Quant, sign: int) -> Mapping[str, int] | None:
    """It takes milliseconds; models that are loaded again have the same scales."""
    values, (x, z, out) = INT8.astype(np.int64), (tensor((), "INT8", *quant) for quant in (a, b, y))
    return plane(quantized_sum(values[:, None], values, x, z, out, sign), a[0] / y[0], sign * b[0] / y[0])
