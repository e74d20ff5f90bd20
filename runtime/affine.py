"""Affine quantisation ``real = scale * (q - zero_point)``: real numbers to stored integers, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Array, Quant, Tensor


def quantize(values: NDArray[Any], quant: Quant, low: int, high: int) -> NDArray[np.int64]:
    """The nearest integers within [low, high], halves away from zero as QUANTIZE rounds; per channel if ``quant``
    is."""
    scale, zero = (along(a, values.ndim, quant) for a in (quant.scale.astype(np.float64), quant.zero_point))
    steps = values.astype(np.float64) / scale
    whole = np.copysign(np.floor(np.abs(steps) + 0.5), steps)
    return np.asarray(np.clip(whole + zero, low, high), np.int64)


def dequantize(q: NDArray[Any], quant: Quant) -> NDArray[np.float64]:
    scale, zero = (along(a, q.ndim, quant) for a in (quant.scale.astype(np.float64), quant.zero_point))
    return np.asarray(scale * (q.astype(np.int64) - zero), np.float64)


def along(values: NDArray[Any], rank: int, quant: Quant) -> NDArray[Any]:
    """One value per channel, in a shape that broadcasts against a tensor of that rank."""
    return values.reshape([-1 if axis == quant.axis else 1 for axis in range(rank)]) if values.size > 1 else values[0]


def quantised(tensor: Tensor) -> bool:
    """Whether the tensor's integers stand for real numbers."""
    quant = tensor.quant
    whole = quant is not None and tensor.type in ("INT8", "UINT8", "INT16", "UINT16", "INT32", "INT64")
    return whole and quant is not None and quant.scale.size > 0 and quant.usable and bool((quant.scale > 0).all())


def stored(value: Array, tensor: Tensor) -> Array:
    """A value in the tensor's type: floats for quantised integers are quantised, what the type holds exactly is
    converted; InvalidArgumentError for anything else. The shape is left alone."""
    if value.dtype == tensor.dtype:
        return value
    if value.dtype.kind == "f" and quantised(tensor) and tensor.quant is not None:
        if np.isnan(value).any():
            at = [int(k) for k in np.argwhere(np.isnan(value))[0]]
            raise InvalidArgumentError(f"the value at {at} is nan, which no integer stands for")
        return quantize(value, tensor.quant, *tensor.limits).astype(tensor.dtype)
    kind = tensor.dtype.kind
    if kind in "fc" and value.dtype.kind in "fiub":
        return value.astype(tensor.dtype)
    if kind in "iu" and value.dtype.kind in "iu" and not quantised(tensor):
        low, high = tensor.limits
        if not value.size or (low <= value.min() and value.max() <= high):
            return value.astype(tensor.dtype)
    or_floats = ", or floats for the real values" if quantised(tensor) else ""
    raise InvalidArgumentError(f"it holds {value.dtype}, {tensor} needs {tensor.dtype}{or_floats}")


def real(value: Array, tensor: Tensor) -> Array:
    """What quantised integers stand for, as float32; other values as they are."""
    if tensor.quant is None or not quantised(tensor):
        return value
    return dequantize(value, tensor.quant).astype(np.float32)
