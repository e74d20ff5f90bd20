"""Images resized as Keras does, whose backends have other bicubic kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import keras
import numpy as np
from numpy.typing import NDArray

from twinfer.converter.emit.emitter import Emitter, constant
from twinfer.converter.emit.products import fully_connected
from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import Tensor

Floats = NDArray[np.float64]

#: How far a kernel reaches, in elements.
REACH = {"bilinear": 1, "bicubic": 2, "lanczos3": 3, "lanczos5": 5}


@dataclass(frozen=True)
class Resize:
    """Keras's arguments. ``crop`` and ``pad`` keep the aspect ratio."""

    mode: str = "bilinear"
    antialias: bool = False
    crop: bool = False
    pad: bool = False
    fill: float = 0.0


def resized(g: Emitter, x: Tensor, size: Sequence[int], how: Resize) -> Tensor:
    """x [n, h, w, c] with height and width of ``size``."""
    (h, w), (new_h, new_w) = x.shape[1:3], map(int, size)
    if how.crop:
        part = max(min(h, int(w * new_h / new_w)), 1), max(min(w, int(h * new_w / new_h)), 1)
        begin = (h - part[0]) // 2, (w - part[1]) // 2
        return resized(g, g.part(x, (0, *begin, 0), (x.shape[0], *part, x.shape[3])), size, replace(how, crop=False))
    if how.pad:
        rows, columns = (max(h, int(w * new_h / new_w)) - h) // 2, (max(w, int(h * new_w / new_h)) - w) // 2
        x = g.pad(x, [(0, 0), (rows, rows), (columns, columns), (0, 0)], how.fill)
        return resized(g, x, size, replace(how, pad=False))
    if (h, w) == (new_h, new_w):
        return x
    mode = how.mode.lower()
    if mode == "nearest" or (mode == "bilinear" and not how.antialias):
        op = "RESIZE_NEAREST_NEIGHBOR" if mode == "nearest" else "RESIZE_BILINEAR"
        shape = (x.shape[0], new_h, new_w, x.shape[3])
        at = np.array([new_h, new_w], np.int32)
        return g.emit(op, [x, at], shape, align_corners=False, half_pixel_centers=True)
    if mode not in REACH:
        raise UnsupportedOperatorError(f"interpolation {how.mode}; use nearest, bilinear, bicubic or lanczos3")
    for axis, (old, new) in enumerate(((h, new_h), (w, new_w)), start=1):
        if old != new:
            table = constant(shares(old, new, mode, how.antialias).astype(np.float32))
            x = g.along_last(x, [axis], lambda rows, weights=table: fully_connected(g, rows, weights))  # type: ignore[misc]
    return x


def shares(size: int, new: int, mode: str, antialias: bool) -> Floats:
    """The share of every old element in every new one, [new, size], with half-pixel centres.

    On PyTorch the kernel of bicubic is another, and elements outside are those at the edge; on others they are left
    out. With antialias they are alike.
    """
    other = keras.backend.backend() == "torch" and mode == "bicubic" and not antialias
    step = size / new
    wide = max(step, 1.0) if antialias else 1.0
    reach = math.ceil(REACH[mode] * wide)
    at = (np.arange(new) + 0.5) * step - 0.5
    taps = np.floor(at)[:, None] + np.arange(-reach + 1, reach + 1)
    weights = kernel(mode, (taps - at[:, None]) / wide, -0.75 if other else -0.5)
    if not other:
        weights[(taps < 0) | (taps >= size)] = 0
    weights /= weights.sum(1, keepdims=True)
    table = np.zeros((new, size))
    np.add.at(table, (np.arange(new)[:, None], taps.clip(0, size - 1).astype(int)), weights)
    return table


def kernel(mode: str, distance: Floats, a: float = -0.5) -> Floats:
    """Weight by distance. Source: R. Keys, Cubic convolution interpolation for digital image processing, 1981, and
    C. Lanczos's kernel, sinc(x) sinc(x / reach)."""
    d, reach = np.abs(distance), REACH[mode]
    if mode == "bilinear":
        return np.asarray(np.maximum(1 - d, 0))
    if mode == "bicubic":
        near, far = ((a + 2) * d - (a + 3)) * d * d + 1, ((d - 5) * d + 8) * d * a - 4 * a
        return np.asarray(np.where(d <= 1, near, np.where(d < 2, far, 0)))
    return np.asarray(np.where(d < reach, np.sinc(d) * np.sinc(d / reach), 0))
