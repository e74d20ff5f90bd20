"""Convolutions and pooling: windows over one and two spatial dimensions, ONNX's padding as TFLite's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from typing import Any

import numpy as np

from twinfer.converter.emit.emitter import NCHW, NHWC, Emitter, move_constant
from twinfer.converter.emit.products import as_image, spread, transpose_conv
from twinfer.converter.onnx.node import OnnxNode, Shape
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Tensor


@dataclass(frozen=True)
class Window:
    """Kernel, strides, dilations, and padding as (before, after), each for height and width."""

    kernel: Shape
    strides: Shape
    dilations: Shape
    pads: tuple[tuple[int, int], ...]

    @property
    def extents(self) -> Shape:
        """How far the kernel reaches, holes counted."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def outputs(self, size: Shape) -> Shape:
        """Extents of the result for an image of ``size``; ModelError if the kernel does not fit in."""
        rows = zip(size, self.pads, self.extents, self.strides, strict=True)
        sizes = tuple((n + sum(pad) - extent) // stride + 1 for n, pad, extent, stride in rows)
        if min(sizes) < 1:
            raise ModelError(f"the kernel {list(self.extents)} does not fit into the padded image {list(size)}")
        return sizes

    def same(self, size: Shape) -> bool:
        """Whether TFLite's SAME pads the same way."""
        rows = zip(size, self.extents, self.strides, strict=True)
        return self.pads == tuple(_same(n, extent, stride, upper=True) for n, extent, stride in rows)

    @property
    def unpadded(self) -> bool:
        return not any(map(any, self.pads))

    @property
    def options(self) -> dict[str, Any]:
        return {"stride_h": self.strides[0], "stride_w": self.strides[1]}


def _same(size: int, extent: int, stride: int, upper: bool) -> tuple[int, int]:
    """Padding that leaves ceil(size / stride) outputs; the odd one comes after, or before unless ``upper``."""
    total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    less, more = total // 2, total - total // 2
    return (less, more) if upper else (more, less)


def window_of(node: OnnxNode, kernel: Shape, size: Shape) -> Window:
    """The window of a convolution or pooling over an image of ``size``, in 2-D (1-D gets a height of one)."""
    rank = len(size)
    node.need(rank in (1, 2), f"{rank} spatial dimensions; TFLite has one and two")
    strides = tuple(node.attribute("strides", [1] * rank))
    dilations = tuple(node.attribute("dilations", [1] * rank))
    if not len(kernel) == len(strides) == len(dilations) == rank:
        raise ModelError(f"{node}: kernel, strides and dilations must have {rank} numbers")
    window = Window(tuple(kernel), strides, dilations, ())
    window = replace(window, pads=_pads(node, window, size))
    return window if rank == 2 else Window((1, *kernel), (1, *strides), (1, *dilations), ((0, 0), *window.pads))


def _pads(node: OnnxNode, window: Window, size: Shape) -> tuple[tuple[int, int], ...]:
    auto, rank = node.attribute("auto_pad", "NOTSET"), len(size)
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        rows = zip(size, window.extents, window.strides, strict=True)
        return tuple(_same(n, extent, stride, auto == "SAME_UPPER") for n, extent, stride in rows)
    if auto == "VALID":
        return ((0, 0),) * rank
    if auto != "NOTSET":
        raise ModelError(f"{node}: auto_pad {auto!r} does not exist")
    pads = tuple(node.attribute("pads", [0] * 2 * rank))
    if len(pads) != 2 * rank or min(pads) < 0:
        raise ModelError(f"{node}: pads {list(pads)} must be {2 * rank} numbers from zero up")
    return tuple(zip(pads[:rank], pads[rank:], strict=True))


def pad_image(g: Emitter, x: Tensor, window: Window, value: Any = 0) -> tuple[Tensor, str, Shape]:
    """The NHWC image, TFLite's padding, and the result's height and width. Padding that TFLite lacks becomes PAD."""
    size = x.shape[1:3]
    out = window.outputs(size)
    if window.unpadded:
        return x, "VALID", out
    if window.same(size):
        return x, "SAME", out
    return g.pad(x, [(0, 0), *window.pads, (0, 0)], value), "VALID", out


def in_nhwc(g: Emitter, x: Tensor, run: Callable[[Tensor], Tensor]) -> Tensor:
    """``run`` on the NCHW tensor laid as NHWC, and its result laid back; [n, c, w] passes through as [n, 1, w, c]."""
    if len(x.shape) not in (3, 4):
        raise UnsupportedOperatorError(f"{len(x.shape) - 2} spatial dimensions; TFLite has one and two")
    to, back = (NHWC, NCHW) if len(x.shape) == 4 else ((0, 2, 1), (0, 2, 1))
    return g.transpose(as_image(g, g.transpose(x, to), run), back)


def conv(g: Emitter, node: OnnxNode) -> Tensor:
    """A depthwise convolution where every group reads one channel and there are several; else CONV_2D, which knows
    groups."""
    x, w = node.input(0), _with_height(g, node.input(1))
    groups = int(node.attribute("group", 1))
    if x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise ModelError(f"{node}: {groups} groups do not fit input {list(x.shape)} and weights {list(w.shape)}")
    window = window_of(node, w.shape[2:][-len(x.shape) + 2 :], x.shape[2:])
    depthwise, out = groups > 1 and w.shape[1] == 1, w.shape[0]
    op, order = ("DEPTHWISE_CONV_2D", (1, 2, 3, 0)) if depthwise else ("CONV_2D", (0, 2, 3, 1))
    options: dict[str, Any] = {"depth_multiplier": out // x.shape[1]} if depthwise else {}
    options |= {"dilation_h_factor": window.dilations[0], "dilation_w_factor": window.dilations[1]}

    def run(image: Tensor) -> Tensor:
        image, padding, size = pad_image(g, image, window)
        inputs = [image, g.transpose(w, order), bias_of(node, out)]
        return g.emit(op, inputs, (image.shape[0], *size, out), padding=padding, **window.options, **options)

    return in_nhwc(g, x, run)


def _with_height(g: Emitter, w: Tensor) -> Tensor:
    return g.reshape(w, (*w.shape[:2], 1, *w.shape[2:])) if len(w.shape) == 3 else w


def bias_of(node: OnnxNode, channels: int) -> Tensor | np.ndarray:
    """Input 2, or zeros: TFLM's integer kernels and some delegates insist on a bias."""
    return node.optional(2) or np.zeros(channels, np.float32)


def conv_transpose(g: Emitter, node: OnnxNode) -> Tensor:
    """TRANSPOSE_CONV; holes and groups become zeros."""
    x, w = node.input(0), _dense(g, node)
    rank = len(x.shape) - 2
    node.need(rank in (1, 2), f"{rank} spatial dimensions; TFLite has one and two")
    strides = tuple(node.attribute("strides", [1] * rank))
    full = tuple((n - 1) * s + k for n, s, k in zip(x.shape[2:], strides, w.shape[2:], strict=True))
    begin, size = _kept(node, full, strides, x.shape[2:])
    if rank == 1:
        strides, full, begin, size = (1, *strides), (1, *full), (0, *begin), (1, *size)
    weights = g.transpose(_with_height(g, w), (1, 2, 3, 0))
    constants, places = (weights, bias_of(node, w.shape[1])), (strides, full, begin, size)
    return in_nhwc(g, x, lambda image: transpose_conv(g, image, constants, places))


def _dense(g: Emitter, node: OnnxNode) -> Tensor:
    """Weights [in, out, *kernel] with zeros between the taps of dilated kernels and between groups."""
    w, groups = node.input(1), int(node.attribute("group", 1))
    node.need(w.data is not None, "weights that are computed; export them as an initializer")
    if len(w.shape) != len(node.input(0).shape) or w.shape[0] % groups:
        raise ModelError(f"{node}: the weights {list(w.shape)} do not fit {node.input(0)} and {groups} groups")
    dilations = node.attribute("dilations", [1] * (len(w.shape) - 2))
    kernel = ((k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True))
    shape = (w.shape[0], w.shape[1] * groups, *kernel)
    g.budget.take((math.prod(shape) - w.size) * w.dtype.itemsize, "its weights with zeros between them")
    quant = None if groups > 1 and w.quant is not None and w.quant.per_channel else w.quant
    return move_constant(w, shape, quant, lambda data: spread(data, dilations, groups))


def _kept(node: OnnxNode, full: Shape, strides: Shape, size: Shape) -> tuple[Shape, Shape]:
    """Where the result begins in the full extent, and its extents. Source: ONNX's ConvTranspose."""
    rank = len(full)
    extra = tuple(node.attribute("output_padding", [0] * rank))
    auto = node.attribute("auto_pad", "NOTSET")
    wanted = node.attribute("output_shape", None)
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [n * s for n, s in zip(size, strides, strict=True)]
    if wanted is not None:
        total = [f + e - n for f, e, n in zip(full, extra, wanted, strict=True)]
        less = [t // 2 for t in total]
        begin = less if auto == "SAME_UPPER" else [t - n for t, n in zip(total, less, strict=True)]
        node.need(min(begin) >= 0, f"output_shape {list(wanted)} is larger than what is computed; pad it explicitly")
        return tuple(begin), tuple(wanted)
    pads = tuple(node.attribute("pads", [0] * 2 * rank))
    rows = zip(full, extra, pads[:rank], pads[rank:], strict=True)
    return pads[:rank], tuple(f + e - before - after for f, e, before, after in rows)


def _window(node: OnnxNode) -> Window:
    """The window; with ceil_mode it is padded until the last output's kernel is inside."""
    x, kernel = node.input(0), tuple(node.attribute("kernel_shape", ()))
    window = window_of(node, kernel, x.shape[2:])
    if not node.attribute("ceil_mode", 0):
        return window
    size, pads = x.shape[2:] if len(kernel) == 2 else (1, *x.shape[2:]), []
    for n, (before, after), extent, stride in zip(size, window.pads, window.extents, window.strides, strict=True):
        count = -(-(n + before + after - extent) // stride) + 1
        if (count - 1) * stride >= n + before:  # all of the last kernel would lie in the padding behind
            count -= 1
        pads.append((before, max((count - 1) * stride + extent - n - before, after)))
    return replace(window, pads=tuple(pads))


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
    x, padding, size = pad_image(g, x, window, value)
    options = {**window.options, "filter_height": window.kernel[0], "filter_width": window.kernel[1]}
    return g.emit(op, [x], (x.shape[0], *size, x.shape[3]), padding=padding, **options)


def _taps(g: Emitter, x: Tensor, window: Window, op: str) -> Tensor:
    """What the dilated kernel's taps see of the padded image, combined by an element-wise operator."""
    size, seen = replace(window, pads=((0, 0), (0, 0))).outputs(x.shape[1:3]), []
    for tap in product(*map(range, window.kernel)):
        begin = [t * d for t, d in zip(tap, window.dilations, strict=True)]
        end = [b + (n - 1) * s + 1 for b, n, s in zip(begin, size, window.strides, strict=True)]
        limits = [[0, *begin, 0], [x.shape[0], *end, x.shape[3]], [1, *window.strides, 1]]
        places = [np.array(v, np.int32) for v in limits]
        seen.append(g.emit("STRIDED_SLICE", [x, *places], (x.shape[0], *size, x.shape[3])))
    return reduce(lambda a, b: g.binary(op, a, b), seen)


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
    def run(g: Emitter, x: Tensor) -> Tensor:
        return g.emit(op, [x, np.array([1, 2], np.int32)], (x.shape[0], 1, 1, x.shape[3]), keep_dims=True)

    return lambda g, node: in_nhwc(g, node.input(0), lambda x: run(g, x))


IMPORTERS = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": _everywhere("MEAN"),
    "GlobalMaxPool": _everywhere("REDUCE_MAX"),
}
