"""Transposed convolution."""

from __future__ import annotations

import numpy as np

from twinfer.converter.emit.emitter import Emitter, Operand, Shape
from twinfer.runtime.graph import Tensor


def transpose_conv(
    g: Emitter, x: Tensor, constants: tuple[Tensor, Tensor | np.ndarray], places: tuple[Shape, Shape, Shape, Shape]
) -> Tensor:
    """TRANSPOSE_CONV of x [n, h, w, in], over the full extent and cut where the padding is not SAME.

    ``constants`` are weights [out, kernel height, kernel width, in] and bias [out]. ``places`` are, for height and
    width each: the strides, the full extent of the result, and begin and extent of the part that is kept.
    """
    (w, bias), (strides, full, begin, size) = constants, places
    rows = list(zip(x.shape[1:3], strides, full, begin, size, strict=True))
    same = all(n == -(-out // s) and at == (f - out) // 2 and f >= out for n, s, f, at, out in rows)
    whole = size if same else tuple(max(f, at + out) for _, _, f, at, out in rows)  # it may reach further
    shape = (x.shape[0], *(size if same else full), w.shape[0])
    inputs: list[Operand] = [np.array(shape, np.int32), w, x]
    more = whole != shape[1:3]
    options = {"padding": "SAME" if same else "VALID", "stride_h": strides[0], "stride_w": strides[1]}
    y = g.emit("TRANSPOSE_CONV", inputs if more else [*inputs, bias], shape, type=x.type, **options)
    y = g.pad(y, [(0, 0), *((0, n - f) for n, f in zip(whole, shape[1:3], strict=True)), (0, 0)])
    y = g.binary("ADD", y, bias) if more else y
    return y if same else g.part(y, (0, *begin, 0), (x.shape[0], *size, w.shape[0]))


def spread(w: np.ndarray, dilations: Shape) -> np.ndarray:
    """Weights [a, b, *kernel] with zeros between the taps of a dilated kernel."""
    kernel = ((k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True))
    dense = np.zeros((*w.shape[:2], *kernel), w.dtype)
    dense[(slice(None), slice(None), *(slice(None, None, d) for d in dilations))] = w
    return dense
