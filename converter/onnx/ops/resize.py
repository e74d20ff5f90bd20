"""Resize: TFLite's operators where they take the same samples, else GATHER (nearest) or a product with the weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.emit.emitter import NCHW, NHWC, Emitter, constant
from twinfer.converter.emit.products import fully_connected
from twinfer.converter.onnx.node import OnnxNode, Shape, positive
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Tensor

Floats = NDArray[np.float64]

#: align_corners and half_pixel_centers as TFLite combines them.
FLAGS = ((False, True), (True, False), (False, False))


@dataclass(frozen=True)
class Axis:
    """How one dimension is resized: from ``size`` to ``new`` elements, ``scale`` new ones per old one."""

    index: int
    size: int
    new: int
    scale: float


def resize(g: Emitter, node: OnnxNode) -> Tensor:
    """As ONNX Runtime does it: where no length changes, scales are not looked at; with antialias, in each dimension."""
    x, mode = node.input(0), node.attribute("mode", "nearest")
    axes = _axes(node)
    if (small := next((axis for axis in axes if axis.new < 1), None)) is not None:
        raise ModelError(f"{node}: dimension {small.index} of {list(x.shape)} becomes {small.new}; give it one")
    stay = all(axis.new == axis.size for axis in axes) or bool(node.attribute("antialias", 0))
    axes = [axis for axis in axes if axis.new != axis.size or (axis.scale != 1 and not stay)]
    for axis in axes:
        g.budget.afford(8 * axis.new * (1 if mode == "nearest" else axis.size), "a table of its weights")
    if mode == "nearest":
        return _nearest(g, x, {axis: _indices(node, axis) for axis in axes})
    return _weighted(g, x, {axis: _weights(node, axis, mode) for axis in axes})


def _axes(node: OnnxNode) -> list[Axis]:
    """The dimensions that are resized, by scales (input 2) or sizes (input 3)."""
    x = node.input(0)
    scales = node.constant(2)
    sizes = node.constant(3)
    at = [positive(node, a, len(x.shape)) for a in node.attribute("axes", range(len(x.shape)))]
    if sizes is not None and sizes.size:
        return _sized(node, at, [int(n) for n in sizes])
    if scales is None or len(scales) != len(at):
        raise ModelError(f"{node}: it needs {len(at)} scales or sizes")
    return [Axis(a, x.shape[a], math.floor(x.shape[a] * s), float(s)) for a, s in zip(at, scales, strict=True)]


def _sized(node: OnnxNode, at: Sequence[int], sizes: Sequence[int]) -> list[Axis]:
    """Axes by new sizes; keep_aspect_ratio_policy makes all scales the least or the greatest of them."""
    old = [node.input(0).shape[a] for a in at]
    scales = [n / o for n, o in zip(sizes, old, strict=True)]
    policy = node.attribute("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        scale = np.float32(min(scales) if policy == "not_larger" else max(scales))
        return [Axis(a, o, math.floor(o * scale + 0.5), float(scale)) for a, o in zip(at, old, strict=True)]
    return [Axis(a, o, n, s) for a, o, n, s in zip(at, old, sizes, scales, strict=True)]


def _positions(node: OnnxNode, axis: Axis) -> Floats:
    """Where every new element lies among the old ones, [new]: in float32, as ONNX Runtime has them, because the
    nearest element may turn on the last bit. Source: ONNX's Resize."""
    mode = node.attribute("coordinate_transformation_mode", "half_pixel")
    at = np.arange(axis.new, dtype=np.float32)
    size, new, scale, half = (np.float32(v) for v in (axis.size, axis.new, axis.scale, 0.5))
    if mode == "asymmetric":
        at = at / scale
    elif mode == "align_corners":  # by whole lengths, also where a scale gave the new one
        at = at * (size - 1) / (new - 1) if axis.new > 1 else at
    elif mode == "pytorch_half_pixel" and axis.new == 1:
        at = at * 0
    elif mode in ("half_pixel", "pytorch_half_pixel"):
        at = (at + half) / scale - half
    elif mode == "tf_half_pixel_for_nn":
        at = (at + half) / scale
    elif mode == "half_pixel_symmetric":
        at = size / 2 * (1 - new / (scale * size)) + (at + half) / scale - half
    else:
        raise UnsupportedOperatorError(
            f"coordinate_transformation_mode {mode}; use half_pixel, asymmetric or align_corners"
        )
    return at.astype(np.float64)


def _indices(node: OnnxNode, axis: Axis) -> NDArray[np.int64]:
    """Which old element becomes each new one, [new]. To the nearest, a half counts as one up to 1e-6, as in ONNX
    Runtime."""
    at, mode = _positions(node, axis), node.attribute("nearest_mode", "round_prefer_floor")
    halves = np.abs(at - np.floor(at) - 0.5) < 1e-6
    rounding: dict[str, Callable[[Floats], Floats]] = {
        "floor": np.floor,
        "ceil": np.ceil,
        "round_prefer_floor": lambda at: np.where(halves, np.floor(at), np.rint(at)),
        "round_prefer_ceil": lambda at: np.where(halves, np.ceil(at), np.rint(at)),
    }
    table: NDArray[np.int64] = rounding[mode](at).clip(0, axis.size - 1).astype(np.int64)
    return table


def _weights(node: OnnxNode, axis: Axis, mode: str) -> Floats:
    """The share of every old element in every new one, [new, size]."""
    node.need(mode in ("linear", "cubic"), f"mode {mode}; use nearest, linear or cubic")
    a = float(node.attribute("cubic_coeff_a", -0.75))
    narrow = min(axis.scale, 1.0) if node.attribute("antialias", 0) else 1.0
    reach = math.ceil((1 if mode == "linear" else 2) / narrow)
    at = _positions(node, axis)
    taps = np.floor(at)[:, None] + np.arange(-reach + 1, reach + 1)
    weights = _kernel(mode, a, (taps - at[:, None]) * narrow)
    outside = (taps < 0) | (taps >= axis.size)
    if node.attribute("exclude_outside", 0):
        weights[outside] = 0
    weights /= weights.sum(1, keepdims=True)
    table = np.zeros((axis.new, axis.size))
    np.add.at(table, (np.arange(axis.new)[:, None], taps.clip(0, axis.size - 1).astype(int)), weights)
    return table


def _kernel(mode: str, a: float, distance: Floats) -> Floats:
    """Weight by distance. Source: R. Keys, Cubic convolution interpolation for digital image processing, 1981."""
    d = np.abs(distance)
    near = 1 - d if mode == "linear" else ((a + 2) * d - (a + 3)) * d * d + 1
    far = d * 0 if mode == "linear" else ((d - 5) * d + 8) * d * a - 4 * a
    weights: Floats = np.where(d <= 1, near, np.where(d < 2, far, 0))
    return weights


def _nearest(g: Emitter, x: Tensor, tables: dict[Axis, NDArray[np.int64]]) -> Tensor:
    for flags in FLAGS if _image(x, tables) else ():
        if all((_tflite_indices(axis, *flags) == table).all() for axis, table in tables.items()):
            return _resized(g, "RESIZE_NEAREST_NEIGHBOR", x, tables, flags)
    for axis, table in tables.items():
        x = g.gather(x, table, axis.index)
    return x


def _weighted(g: Emitter, x: Tensor, tables: dict[Axis, Floats]) -> Tensor:
    for flags in FLAGS if _image(x, tables) else ():
        if all(np.allclose(_tflite_weights(axis, *flags), table, atol=1e-6) for axis, table in tables.items()):
            return _resized(g, "RESIZE_BILINEAR", x, tables, flags)
    for axis, table in tables.items():
        weights = constant(table.astype(np.float32))
        x = g.along_last(x, [axis.index], partial(fully_connected, g, weights=weights))
    return x


def _image(x: Tensor, tables: dict[Axis, Any]) -> bool:
    """Whether height and width alone are resized."""
    return len(x.shape) == 4 and all(axis.index in (2, 3) for axis in tables)


def _resized(g: Emitter, op: str, x: Tensor, tables: dict[Axis, Any], flags: tuple[bool, bool]) -> Tensor:
    new = {axis.index: axis.new for axis in tables}
    size = np.array([new.get(i, x.shape[i]) for i in (2, 3)], np.int32)
    shape: Shape = (x.shape[0], *map(int, size), x.shape[1])
    image = g.transpose(x, NHWC)
    return g.transpose(g.emit(op, [image, size], shape, align_corners=flags[0], half_pixel_centers=flags[1]), NCHW)


def _steps(axis: Axis, align: bool) -> np.float32:
    """Old elements per new one, as TFLite computes it."""
    corners = int(align and axis.new > 1)
    return np.float32(axis.size - corners) / np.float32(axis.new - corners)


def _tflite_indices(axis: Axis, align: bool, half: bool) -> NDArray[np.int64]:
    """Source: TFLite reference_ops::GetNearestNeighbor."""
    at = (np.arange(axis.new, dtype=np.float32) + np.float32(0.5 * half)) * _steps(axis, align)
    table: NDArray[np.int64] = np.minimum(np.floor(at + 0.5 if align else at), axis.size - 1).astype(np.int64)
    return table


def _tflite_weights(axis: Axis, align: bool, half: bool) -> Floats:
    """Source: TFLite reference_ops::ComputeInterpolationValues."""
    at = np.arange(axis.new) * float(_steps(axis, align))
    at = at + 0.5 * float(_steps(axis, align)) - 0.5 if half else at
    low = np.floor(at)
    table, rows = np.zeros((axis.new, axis.size)), np.arange(axis.new)
    for tap, weight in ((low, 1 - (at - low)), (low + 1, at - low)):
        np.add.at(table, (rows, tap.clip(0, axis.size - 1).astype(int)), weight)
    return table


IMPORTERS = {"Resize": resize}
