"""Affine quantisation ``real = scale * (q - zero_point)``: from ranges to scales, from values to integers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.affine import dequantize, quantize
from twinfer.runtime.graph import Quant, Tensor

#: Scales are kept within what float32 divides without loss.
LEAST_SCALE, MOST_SCALE = 2.0**-80, 2.0**80

#: The end of the range of a tensor that was always 0. Functions of it then serve values near 0.
EMPTY = 1.0

#: Integer type -> least and greatest value of an activation. INT16 is symmetric (zero point 0).
LIMITS = {"INT8": (-128, 127), "INT16": (-32768, 32767)}

Range = tuple[float, float]


def activation(limits: Range, type: str) -> Quant:
    """Per-tensor quantisation that spreads the range, widened to hold 0, over the type's steps.

    An empty range becomes that of 0 to EMPTY. INT8 is asymmetric, INT16 symmetric with zero point 0, as TFLite's
    kernels want them. Zero is exact in both.
    """
    low, high = min(limits[0], 0.0), max(limits[1], 0.0)
    high = high if high > low else EMPTY
    least, most = LIMITS[type]
    if type == "INT16":
        return Quant.per_tensor(_scale(max(-low, high) / most))
    scale = _scale((high - low) / (most - least))
    return Quant.per_tensor(scale, int(np.clip(round(least - low / scale), least, most)))


def _scale(value: float) -> float:
    return float(np.float32(min(max(value, LEAST_SCALE), MOST_SCALE)))


def real(value: NDArray[Any], tensor: Tensor) -> NDArray[np.float64]:
    """The real numbers that a value of the tensor stands for."""
    if tensor.quant is None or tensor.type not in LIMITS:
        return np.asarray(value, np.float64)
    return dequantize(value, tensor.quant)


def to_stored(value: NDArray[Any], tensor: Tensor) -> NDArray[Any]:
    """A float value in the tensor's type and quantisation."""
    if tensor.quant is None or tensor.type not in LIMITS:
        return value
    return quantize(value, tensor.quant, *LIMITS[tensor.type]).astype(tensor.dtype)


def data_range(tensor: Tensor) -> Range:
    data = np.asarray(tensor.data)
    return (float(data.min()), float(data.max())) if data.size else (0.0, 0.0)
