"""Where and by how much two engines' values of one tensor differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinfer.runtime.graph import Array


@dataclass(frozen=True)
class Difference:
    """The first element in which an engine differs from the interpreter, and the largest difference in the tensor."""

    sample: int
    element: tuple[int, ...]
    interpreted: float
    other: float
    largest: float
    within: bool  # of the tolerance


def compare(sample: int, ours: Array, other: Array, tolerance: float) -> Difference | None:
    """None for the same bits; else where and by how much two values of a tensor differ."""
    other = np.asarray(other)
    if other.shape != ours.shape and other.size == ours.size:
        other = other.reshape(ours.shape)  # TFLM drops and adds dimensions of one
    if other.dtype != ours.dtype or other.shape != ours.shape:
        return Difference(sample, (), float("nan"), float("nan"), float("inf"), within=False)
    differs = (_bits(ours) != _bits(other)) & ~(_nan(ours) & _nan(other))
    if not differs.any():
        return None
    far = np.zeros(ours.shape)
    np.abs(np.subtract(ours, other, out=far, where=differs, dtype=np.float64), out=far)
    magnitude = float(np.max(np.abs(ours, dtype=np.float64), initial=0.0, where=np.isfinite(ours)))
    largest = float(far.max()) if np.isfinite(far).all() else float("inf")
    within = ours.dtype.kind == "f" and tolerance > 0 and largest <= tolerance * magnitude
    guilty = differs & ~(far <= tolerance * magnitude)
    first = int(np.argmax(guilty if guilty.any() else differs))
    element = tuple(int(i) for i in np.unravel_index(first, ours.shape))
    return Difference(sample, element, float(ours[element]), float(other[element]), largest, within)


def _bits(array: Array) -> Array:
    """The elements as unsigned integers, which tell 0.0 from -0.0."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def _nan(array: Array) -> Array:
    return np.isnan(array) if array.dtype.kind in "fc" else np.zeros(array.shape, bool)
