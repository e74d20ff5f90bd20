"""Convolutions over three spatial dimensions.

TFLite has them in float32 and without groups: ``g.emit("CONV_3D", [x, w, bias], shape, padding="SAME", stride_d=1,
stride_h=1, stride_w=1)`` of x [n, d, h, w, in] and w [kd, kh, kw, in, out], and ``g.emit("CONV_3D_TRANSPOSE", [shape,
w, x, bias], shape, type="FLOAT32", ...)`` with w [kd, kh, kw, out, in].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from twinfer.converter.emit.emitter import Emitter, Operand, Shape
from twinfer.runtime.graph import Tensor


def conv_3d(g: Emitter, x: Tensor, w: Tensor, bias: Operand, strides: Shape, dilations: Shape, padding: str) -> Tensor:
    """x [n, d, h, w, in] with weights [kd, kh, kw, in / groups, out]: a CONV_3D for each group. ``padding``: SAME or
    VALID."""
    *kernel, depth, out = w.shape
    groups = x.shape[4] // depth
    if groups > 1:
        parts = []
        for i in range(groups):
            image = g.part(x, (0, 0, 0, 0, i * depth), (*x.shape[:4], depth))
            each, addend = out // groups, g.operand(bias)
            weights = g.part(w, (0, 0, 0, 0, i * each), (*w.shape[:4], each))
            addend = None if addend is None else g.part(addend, (i * each,), (each,))
            parts.append(conv_3d(g, image, weights, addend, strides, dilations, padding))
        return g.concat(parts, 4)
    rows = zip(x.shape[1:4], kernel, strides, dilations, strict=True)
    size = [-(-n // s) if padding == "SAME" else (n - (k - 1) * d - 1) // s + 1 for n, k, s, d in rows]
    options = _options("stride_{}", strides) | _options("dilation_{}_factor", dilations)
    return g.emit("CONV_3D", [x, w, bias], (x.shape[0], *size, out), padding=padding, **options)


def _options(name: str, values: Shape) -> dict[str, Any]:
    return {name.format(side): value for side, value in zip("dhw", values, strict=True)}


def transpose_conv_3d(
    g: Emitter, x: Tensor, w: Tensor, bias: Operand, places: tuple[Shape, Shape, Shape, Shape]
) -> Tensor:
    """CONV_3D_TRANSPOSE of x [n, d, h, w, in] with weights [kd, kh, kw, out, in], cut to the part that is kept.

    ``places``: strides, full extent of the result, begin and extent of that part, which may reach further by less than
    a stride: there is the bias alone.
    """
    strides, full, begin, size = places
    whole = (max(f, at + n) for f, at, n in zip(full, begin, size, strict=True))
    shape, options = (x.shape[0], *whole, w.shape[3]), _options("stride_{}", strides)
    inputs: list[Operand] = [np.array(shape, np.int32), w, x, bias]
    y = g.emit("CONV_3D_TRANSPOSE", inputs, shape, x.type, padding="VALID", **options)
    return g.part(y, (0, *begin, 0), (x.shape[0], *size, w.shape[3]))
