"""Conv and ConvTranspose with one or two spatial dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from twinfer.converter.emit.emitter import Emitter, moved
from twinfer.converter.emit.transposed import transpose_conv
from twinfer.converter.onnx.node import OnnxNode, Shape
from twinfer.converter.onnx.ops._window import Window, in_nhwc, padded, window_of
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Tensor


def conv(g: Emitter, node: OnnxNode) -> Tensor:
    """A depthwise convolution where every group reads one channel and there are several; else CONV_2D, which knows
    groups."""
    x, w = node.input(0), _with_height(g, node.input(1))
    groups = int(node.attribute("group", 1))
    if x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise ModelError(f"{node}: {groups} groups do not fit input {list(x.shape)} and weights {list(w.shape)}")
    window = window_of(node, w.shape[2:][-len(x.shape) + 2 :], x.shape[2:])
    emit = _depthwise if groups > 1 and w.shape[1] == 1 else _conv
    return in_nhwc(g, x, lambda image: emit(g, node, image, w, window))


def _with_height(g: Emitter, w: Tensor) -> Tensor:
    return g.reshape(w, (*w.shape[:2], 1, *w.shape[2:])) if len(w.shape) == 3 else w


def _conv(g: Emitter, node: OnnxNode, x: Tensor, w: Tensor, window: Window) -> Tensor:
    x, padding, size = padded(g, x, window)
    inputs = [x, g.transpose(w, (0, 2, 3, 1)), bias_of(node, w.shape[0])]
    shape = (x.shape[0], *size, w.shape[0])
    return g.emit("CONV_2D", inputs, shape, padding=padding, **window.options, **window.dilation_options)


def _depthwise(g: Emitter, node: OnnxNode, x: Tensor, w: Tensor, window: Window) -> Tensor:
    x, padding, size = padded(g, x, window)
    out, channels = w.shape[0], x.shape[3]
    inputs = [x, g.transpose(w, (1, 2, 3, 0)), bias_of(node, out)]
    options = {**window.options, **window.dilation_options, "depth_multiplier": out // channels}
    return g.emit("DEPTHWISE_CONV_2D", inputs, (x.shape[0], *size, out), padding=padding, **options)


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
    return moved(w, shape, quant, lambda data: _spread(data, shape, groups, dilations))


def _spread(w: np.ndarray, shape: Shape, groups: int, dilations: Sequence[int]) -> np.ndarray:
    rows, columns = w.shape[0] // groups, w.shape[1]
    dense = np.zeros(shape, w.dtype)
    taps = tuple(slice(None, None, d) for d in dilations)
    for i in range(groups):
        block = slice(i * rows, (i + 1) * rows)
        dense[(block, slice(i * columns, (i + 1) * columns), *taps)] = w[block]
    return dense


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


IMPORTERS = {"Conv": conv, "ConvTranspose": conv_transpose}
