"""MaxPool, AveragePool and the global ones, with one or two spatial dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import reduce

import numpy as np

from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.onnx.node import OnnxNode, Shape
from twinfer.converter.onnx.ops._window import Window, in_nhwc, padded, window_of
from twinfer.runtime.graph import Tensor


def _window(node: OnnxNode) -> Window:
    """The window; with ceil_mode it is padded until the last output's kernel is inside."""
    x, kernel = node.input(0), tuple(node.attribute("kernel_shape", ()))
    window = window_of(node, kernel, x.shape[2:])
    if not node.attribute("ceil_mode", 0):
        return window
    size = x.shape[2:] if len(kernel) == 2 else (1, *x.shape[2:])
    rows = zip(size, window.pads, window.extents, window.strides, strict=True)
    return replace(window, pads=tuple(_ceiled(n, pads, extent, stride) for n, pads, extent, stride in rows))


def _ceiled(size: int, pads: tuple[int, int], extent: int, stride: int) -> tuple[int, int]:
    """Padding with the kernel that floor mode leaves out, unless all of it would lie in the padding behind."""
    before, after = pads
    count = -(-(size + before + after - extent) // stride) + 1
    if (count - 1) * stride >= size + before:
        count -= 1
    return before, max((count - 1) * stride + extent - size - before, after)


def max_pool(g: Emitter, node: OnnxNode) -> Tensor:
    node.need(len(node.outputs) < 2 or not node.outputs[1], "TFLite's MAX_POOL_2D does not tell indices")
    window = _window(node)
    # beside values that are never negative, zeros do as well as -infinity, and can be quantised
    floor = 0.0 if g.nonnegative(node.input(0)) else -np.inf

    def run(x: Tensor) -> Tensor:
        least = floor if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        if window.dilations != (1, 1):
            return _taps(g, g.pad(x, [(0, 0), *window.pads, (0, 0)], least), window, "MAXIMUM")
        return _pool(g, "MAX_POOL_2D", x, window, least)

    return in_nhwc(g, node.input(0), run)


def _pool(g: Emitter, op: str, x: Tensor, window: Window, value: float = 0) -> Tensor:
    x, padding, size = padded(g, x, window, value)
    options = {**window.options, "filter_height": window.kernel[0], "filter_width": window.kernel[1]}
    return g.emit(op, [x], (x.shape[0], *size, x.shape[3]), padding=padding, **options)


def _taps(g: Emitter, x: Tensor, window: Window, op: str) -> Tensor:
    """What the dilated kernel's taps see of the padded image, combined by an element-wise operator."""
    size = replace(window, pads=((0, 0), (0, 0))).outputs(x.shape[1:3])
    seen = [_tap(g, x, window, size, (i, j)) for i in range(window.kernel[0]) for j in range(window.kernel[1])]
    return reduce(lambda a, b: g.binary(op, a, b), seen)


def _tap(g: Emitter, x: Tensor, window: Window, size: Shape, tap: tuple[int, int]) -> Tensor:
    begin = [t * d for t, d in zip(tap, window.dilations, strict=True)]
    end = [b + (n - 1) * s + 1 for b, n, s in zip(begin, size, window.strides, strict=True)]
    limits = [[0, *begin, 0], [x.shape[0], *end, x.shape[3]], [1, *window.strides, 1]]
    return g.emit("STRIDED_SLICE", [x, *(np.array(v, np.int32) for v in limits)], (x.shape[0], *size, x.shape[3]))


def average_pool(g: Emitter, node: OnnxNode) -> Tensor:
    """TFLite's SAME leaves the padding out of the average; where ONNX counts otherwise, a constant corrects it."""
    window = _window(node)

    def run(x: Tensor) -> Tensor:
        padded = (extent + sum(pads) for extent, pads in zip(x.shape[1:3], window.pads, strict=True))
        g.budget.afford(8 * math.prod(padded), "the count of elements in its windows")
        counted = _counts(node, window, x.shape[1:3])
        plain = window.dilations == (1, 1) and (window.unpadded or window.same(x.shape[1:3]))
        if plain and (counted == _inside(window, x.shape[1:3])).all():
            return _pool(g, "AVERAGE_POOL_2D", x, window)
        whole = replace(window, pads=((0, 0), (0, 0)))
        image, taps = g.pad(x, [(0, 0), *window.pads, (0, 0)]), window.kernel[0] * window.kernel[1]
        if window.dilations == (1, 1):
            y, ratio = _pool(g, "AVERAGE_POOL_2D", image, whole), taps / counted
        else:
            y, ratio = _taps(g, image, whole, "ADD"), 1 / counted
        return y if (ratio == 1).all() else g.binary("MUL", y, ratio[None, :, :, None].astype(x.dtype))

    return in_nhwc(g, node.input(0), run)


def _counts(node: OnnxNode, window: Window, size: Shape) -> np.ndarray:
    """Elements that every output [height, width] is divided by; padding that ceil_mode adds never counts."""
    if not node.attribute("count_include_pad", 0):
        return _inside(window, size)
    explicit = window_of(node, tuple(node.attribute("kernel_shape", ())), node.input(0).shape[2:]).pads
    ones = np.pad(np.ones(size), explicit, constant_values=1)
    rest = [(0, p[1] - e[1]) for p, e in zip(window.pads, explicit, strict=True)]
    return _sums(np.pad(ones, rest), window)


def _inside(window: Window, size: Shape) -> np.ndarray:
    return _sums(np.pad(np.ones(size), window.pads), window)


def _sums(ones: np.ndarray, window: Window) -> np.ndarray:
    views = np.lib.stride_tricks.sliding_window_view(ones, window.extents)
    (sh, sw), (dh, dw) = window.strides, window.dilations
    sums: np.ndarray = views[::sh, ::sw, ::dh, ::dw].sum((2, 3))
    return sums


def _everywhere(op: str) -> Callable[[Emitter, OnnxNode], Tensor]:
    """A reduction over all spatial dimensions, which stay as ones."""

    def run(g: Emitter, node: OnnxNode) -> Tensor:
        def reduced(x: Tensor) -> Tensor:
            return g.emit(op, [x, np.array([1, 2], np.int32)], (x.shape[0], 1, 1, x.shape[3]), keep_dims=True)

        return in_nhwc(g, node.input(0), reduced)

    return run


IMPORTERS = {
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": _everywhere("MEAN"),
    "GlobalMaxPool": _everywhere("REDUCE_MAX"),
}
