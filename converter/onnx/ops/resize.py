"""Resize: TFLite's operators where they take the same samples, else GATHERs, or products with a matrix of weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.emit.emitter import Emitter, constant
from twinfer.converter.emit.products import as_image, fully_connected
from twinfer.converter.onnx.node import OnnxNode, positive
from twinfer.converter.onnx.window import channels_last
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Tensor

Floats = NDArray[np.float64]

#: align_corners and half_pixel_centers as TFLite combines them.
FLAGS = ((False, True), (True, False), (False, False))

#: Up to these bytes a matrix of weights is as small as operators that add up taps; of more taps they are too many.
_SMALL, _TAPS = 4096, 6


@dataclass(frozen=True)
class Axis:
    """How one dimension is resized: from ``size`` to ``new`` elements, ``scale`` new ones per old one. ``begin`` and
    ``end``, as shares of the old extent, are cropped first by tf_crop_and_resize."""

    index: int
    size: int
    new: int
    scale: float
    begin: float = 0.0
    end: float = 1.0


def resize(g: Emitter, node: OnnxNode) -> Tensor:
    """As ONNX Runtime does it: where no length changes, scales are not looked at; with antialias, in each dimension."""
    x, axes = node.input(0), _axes(node)
    if (small := next((axis for axis in axes if axis.new < 1), None)) is not None:
        raise ModelError(f"{node}: dimension {small.index} of {list(x.shape)} becomes {small.new}; give it one")
    stay = all(axis.new == axis.size for axis in axes) or bool(node.attribute("antialias", 0))
    if node.attribute("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        return _cropped(g, node, x, axes)
    axes = [axis for axis in axes if axis.new != axis.size or (axis.scale != 1 and not stay)]
    return _emitted(g, node, x, {axis: _positions(node, axis) for axis in axes})


def _emitted(g: Emitter, node: OnnxNode, x: Tensor, at: dict[Axis, Floats]) -> Tensor:
    """The elements at these positions, of each dimension that is resized."""
    mode = node.attribute("mode", "nearest")
    node.need(mode in ("nearest", "linear", "cubic"), f"mode {mode}; use nearest, linear or cubic")
    for axis in at:
        g.budget.afford(8 * axis.new * (1 if mode == "nearest" else axis.size), "a table of its weights")
    if len(x.shape) == 4 and {axis.index for axis in at} == {1, 2}:  # an image in NHWC, as optimisers make it
        places = {replace(axis, index=axis.index + 1): positions for axis, positions in at.items()}
        return g.transpose(_emitted(g, node, g.transpose(x, (0, 3, 1, 2)), places), (0, 2, 3, 1))
    if mode == "nearest":
        return _nearest(g, x, {axis: _indices(node, axis, places) for axis, places in at.items()})
    return _weighted(g, x, {axis: _weights(node, axis, places, mode) for axis, places in at.items()})


def _cropped(g: Emitter, node: OnnxNode, x: Tensor, axes: list[Axis]) -> Tensor:
    """tf_crop_and_resize: what lies outside the image gets a value of its own, on all sides of what lies inside."""
    at, pads = {}, [(0, 0)] * len(x.shape)
    for axis in axes:
        places = _positions(node, axis)
        inside = np.flatnonzero((places >= 0) & (places <= axis.size - 1))
        node.need(inside.size > 0, "a region outside the image; make it a constant")
        pads[axis.index] = int(inside[0]), axis.new - 1 - int(inside[-1])
        at[replace(axis, new=inside.size)] = places[inside]
    kept = {axis: p for axis, p in at.items() if axis.new != axis.size or (p != np.arange(axis.size)).any()}
    return g.pad(_emitted(g, node, x, kept), pads, float(node.attribute("extrapolation_value", 0.0)))


def _axes(node: OnnxNode) -> list[Axis]:
    """The dimensions that are resized, by scales (input 2) or sizes (input 3)."""
    x = node.input(0)
    scales = node.constant(2)
    sizes = node.constant(3)
    at = [positive(node, a, len(x.shape)) for a in node.attribute("axes", range(len(x.shape)))]
    if sizes is not None and sizes.size:
        return _regions(node, _sized(node, at, [int(n) for n in sizes]))
    if scales is None or len(scales) != len(at):
        raise ModelError(f"{node}: it needs {len(at)} scales or sizes")
    axes = [Axis(a, x.shape[a], math.floor(x.shape[a] * s), float(s)) for a, s in zip(at, scales, strict=True)]
    return _regions(node, axes)


def _sized(node: OnnxNode, at: Sequence[int], sizes: Sequence[int]) -> list[Axis]:
    """Axes by new sizes; keep_aspect_ratio_policy makes all scales the least or the greatest of them."""
    old = [node.input(0).shape[a] for a in at]
    scales = [n / o for n, o in zip(sizes, old, strict=True)]
    policy = node.attribute("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        scale = np.float32(min(scales) if policy == "not_larger" else max(scales))
        return [Axis(a, o, math.floor(o * scale + 0.5), float(scale)) for a, o in zip(at, old, strict=True)]
    return [Axis(a, o, n, s) for a, o, n, s in zip(at, old, sizes, scales, strict=True)]


def _regions(node: OnnxNode, axes: list[Axis]) -> list[Axis]:
    """The axes with the region that is cropped (input 1): all beginnings, then all ends."""
    if node.attribute("coordinate_transformation_mode", "") != "tf_crop_and_resize":
        return axes
    roi = node.constant(1)
    if roi is None or len(roi) != 2 * len(axes):
        raise ModelError(f"{node}: tf_crop_and_resize needs a region of {2 * len(axes)} numbers")
    return [replace(axis, begin=float(roi[i]), end=float(roi[i + len(axes)])) for i, axis in enumerate(axes)]


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
    elif mode == "tf_crop_and_resize":
        begin, end = np.float32(axis.begin), np.float32(axis.end)
        step = (end - begin) * (size - 1) / (new - 1) if axis.new > 1 else np.float32(0)
        at = at * step + (begin if axis.new > 1 else half * (begin + end)) * (size - 1)
    else:
        raise UnsupportedOperatorError(
            f"coordinate_transformation_mode {mode}; use half_pixel, asymmetric or align_corners"
        )
    return at.astype(np.float64)


def _indices(node: OnnxNode, axis: Axis, at: Floats) -> NDArray[np.int64]:
    """Which old element becomes each new one, [new]. To the nearest, a half counts as one up to 1e-6, as in ONNX
    Runtime."""
    mode = node.attribute("nearest_mode", "round_prefer_floor")
    halves = np.abs(at - np.floor(at) - 0.5) < 1e-6
    rounding: dict[str, Callable[[Floats], Floats]] = {
        "floor": np.floor,
        "ceil": np.ceil,
        "round_prefer_floor": lambda at: np.where(halves, np.floor(at), np.rint(at)),
        "round_prefer_ceil": lambda at: np.where(halves, np.ceil(at), np.rint(at)),
    }
    table: NDArray[np.int64] = rounding[mode](at).clip(0, axis.size - 1).astype(np.int64)
    return table


def _weights(node: OnnxNode, axis: Axis, at: Floats, mode: str) -> Floats:
    """The share of every old element in every new one, [new, size]."""
    a = float(node.attribute("cubic_coeff_a", -0.75))
    narrow = min(axis.scale, 1.0) if node.attribute("antialias", 0) else 1.0
    reach = math.ceil((1 if mode == "linear" else 2) / narrow)
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
    if x.dtype.kind != "f":
        return g.cast(_weighted(g, g.cast(x, "FLOAT32"), tables), x.type)
    for axis, table in tables.items():
        taps = int((table != 0).sum(1).max())
        if 4 * table.size > _SMALL and taps <= _TAPS:
            x = _by_taps(g, x, axis.index, table, taps)
        else:
            weights = constant(table.astype(np.float32))
            x = g.along_last(x, [axis.index], partial(fully_connected, g, weights=weights))
    return x


def _by_taps(g: Emitter, x: Tensor, index: int, table: Floats, taps: int) -> Tensor:
    """The sum of as many GATHERs, each times its weights, as there are old elements in a new one."""
    at = np.argsort(table == 0, axis=1, kind="stable")[:, :taps]  # those with weights first
    shape = [-1 if i == index else 1 for i in range(len(x.shape))]
    weights = np.take_along_axis(table, at, 1).astype(np.float32)
    parts = [
        g.binary("MUL", g.gather(x, at[:, i], index), np.ascontiguousarray(weights[:, i]).reshape(shape))
        for i in range(taps)
    ]
    return reduce(lambda a, b: g.binary("ADD", a, b), parts)


def _image(x: Tensor, tables: dict[Axis, Any]) -> bool:
    """Whether spatial dimensions alone are resized, of which there are up to three."""
    return 3 <= len(x.shape) <= 5 and all(axis.index >= 2 for axis in tables)


def _resized(g: Emitter, op: str, x: Tensor, tables: dict[Axis, Any], flags: tuple[bool, bool]) -> Tensor:
    """By TFLite's operator over height and width; a third dimension by one more."""
    new = {axis.index: axis.new for axis in tables}
    sizes = [new.get(i, n) for i, n in enumerate(x.shape)][2:]

    def run(image: Tensor, size: Sequence[int]) -> Tensor:
        if tuple(size) == image.shape[1:3]:
            return image
        shape, extents = (image.shape[0], *size, image.shape[3]), np.array(size, np.int32)
        return g.emit(op, [image, extents], shape, align_corners=flags[0], half_pixel_centers=flags[1])

    def spatial(y: Tensor) -> Tensor:
        if len(sizes) < 3:
            return as_image(g, y, lambda image: run(image, [1, *sizes][-2:]))
        n, d, h, w, c = y.shape
        planes = run(g.reshape(y, (n * d, h, w, c)), sizes[1:])
        rows = g.reshape(planes, (n, d, 1, math.prod(planes.shape[1:])))
        return g.reshape(run(rows, [sizes[0], 1]), (n, *sizes, c))

    return channels_last(g, x, spatial)


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
