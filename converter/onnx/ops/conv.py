"""Convolutions: windows over one to three spatial dimensions, ONNX's padding as TFLite's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from twinfer.converter.emit.emitter import Emitter, move_constant
from twinfer.converter.emit.products import as_image, transpose_conv
from twinfer.converter.emit.volumes import conv_3d, transpose_conv_3d
from twinfer.converter.onnx.node import OnnxNode, Shape
from twinfer.converter.onnx.window import Window, channels_last, pad_image, window_of
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Tensor

#: Groups that become a convolution each, where TFLite's has none; of more every one would be small.
_FEW = 4


def conv(g: Emitter, node: OnnxNode) -> Tensor:
    """A depthwise convolution where every group reads one channel and there are several; else CONV_2D, which knows
    groups, or CONV_3D."""
    x, w, groups = node.input(0), node.input(1), int(node.attribute("group", 1))
    if len(w.shape) != len(x.shape) or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise ModelError(f"{node}: {groups} groups do not fit input {list(x.shape)} and weights {list(w.shape)}")
    window, bias = window_of(node, w.shape[2:], x.shape[2:]), bias_of(node, w.shape[0])
    return channels_last(g, x, lambda image: _conv(g, image, w, bias, window))


def _conv(g: Emitter, x: Tensor, w: Tensor, bias: Tensor | np.ndarray, window: Window) -> Tensor:
    """x [n, *spatial, c] with weights [out, c / groups, *kernel]."""
    if len(w.shape) == 5 and x.shape[4] > _FEW * w.shape[1]:
        return _by_planes(g, x, w, bias, window)
    if len(w.shape) == 5:
        x, padding, _ = pad_image(g, x, window)
        return conv_3d(g, x, g.transpose(w, (2, 3, 4, 1, 0)), bias, window.strides, window.dilations, padding)
    if len(w.shape) == 3:
        return as_image(g, x, lambda image: _conv(g, image, _with_height(g, w), bias, window.with_height()))
    out, depth = w.shape[:2]
    depthwise = depth == 1 and x.shape[3] > 1
    op, order = ("DEPTHWISE_CONV_2D", (1, 2, 3, 0)) if depthwise else ("CONV_2D", (0, 2, 3, 1))
    options: dict[str, Any] = {"depth_multiplier": out // x.shape[3]} if depthwise else {}
    options |= {"dilation_h_factor": window.dilations[0], "dilation_w_factor": window.dilations[1]}
    x, padding, size = pad_image(g, x, window)
    inputs = [x, g.transpose(w, order), bias]
    return g.emit(op, inputs, (x.shape[0], *size, out), padding=padding, **window.options, **options)


def _by_planes(g: Emitter, x: Tensor, w: Tensor, bias: Tensor | np.ndarray, window: Window) -> Tensor:
    """A convolution of volumes in many groups as the sum of one in two dimensions for each plane of the kernel."""
    n, d, *image = x.shape
    (kernel,), (stride,), (dilation,), (pads,) = (
        window.kernel[:1],
        window.strides[:1],
        window.dilations[:1],
        window.pads[:1],
    )
    count = window.along(range(1)).outputs((d,))[0]
    x = g.pad(x, [(0, 0), pads, *[(0, 0)] * 3])
    total: Tensor | None = None
    for i in range(kernel):
        rows = range(i * dilation, i * dilation + (count - 1) * stride + 1, stride)
        planes = g.reshape(g.slices(x, [range(n), rows, *map(range, image)]), (n * count, *image))
        weights = g.reshape(_cut(g, w, 2, i, kernel), (*w.shape[:2], *w.shape[3:]))
        addend = bias if total is None else np.zeros(w.shape[0], np.float32)
        y = _conv(g, planes, weights, addend, window.along(range(1, 3)))
        total = y if total is None else g.binary("ADD", total, y)
    if total is None:
        raise ModelError(f"{w} has a kernel without elements")
    return g.reshape(total, (n, count, *total.shape[1:]))


def _with_height(g: Emitter, w: Tensor) -> Tensor:
    return g.reshape(w, (*w.shape[:2], 1, *w.shape[2:])) if len(w.shape) == 3 else w


def bias_of(node: OnnxNode, channels: int) -> Tensor | np.ndarray:
    """Input 2, or zeros: TFLM's integer kernels and some delegates insist on a bias."""
    return node.optional(2) or np.zeros(channels, np.float32)


def conv_transpose(g: Emitter, node: OnnxNode) -> Tensor:
    """TRANSPOSE_CONV or CONV_3D_TRANSPOSE; with holes or groups a convolution over an image with zeros in between."""
    x, w, groups = node.input(0), node.input(1), int(node.attribute("group", 1))
    rank, out = len(x.shape) - 2, w.shape[1] * groups
    node.need(1 <= rank <= 3, f"{rank} spatial dimensions; TFLite has one to three")
    if len(w.shape) != len(x.shape) or w.shape[0] != x.shape[1] or w.shape[0] % groups:
        raise ModelError(f"{node}: the weights {list(w.shape)} do not fit {x} and {groups} groups")
    strides = tuple(node.attribute("strides", None) or [1] * rank)
    dilations = tuple(node.attribute("dilations", None) or [1] * rank)
    window = Window(w.shape[2:], strides, dilations, ())
    full = tuple((n - 1) * s + e for n, s, e in zip(x.shape[2:], strides, window.extents, strict=True))
    begin, size = _kept(node, full, strides, x.shape[2:])
    bias = bias_of(node, out)
    if groups > _FEW or not window.undilated:
        pads = [(e - 1 - b, b + n - f + e - 1) for e, b, n, f in zip(window.extents, begin, size, full, strict=True)]
        weights = _as_conv(g, w, groups)
        return channels_last(g, x, lambda image: _stuffed(g, image, weights, bias, window, pads))
    places, addend = (strides, full, begin, size), g.operand(bias)

    def run(image: Tensor) -> Tensor:
        images = [_cut(g, image, rank + 1, i, groups) for i in range(groups)]
        each = [(_cut(g, w, 0, i, groups), addend and _cut(g, addend, 0, i, groups)) for i in range(groups)]
        return g.concat([_transposed(g, *both, places) for both in zip(images, each, strict=True)], rank + 1)

    return channels_last(g, x, run)


def _cut(g: Emitter, x: Tensor, axis: int, i: int, count: int) -> Tensor:
    """Part ``i`` of so many equal ones along an axis."""
    each = x.shape[axis] // count
    shape = tuple(each if d == axis else n for d, n in enumerate(x.shape))
    if x.data is None or count == 1:
        return g.part(x, [i * each if d == axis else 0 for d in range(len(shape))], shape)
    quant = None if x.quant is not None and x.quant.per_channel else x.quant
    return move_constant(x, shape, quant, lambda data: np.split(data, count, axis)[i])


def _transposed(
    g: Emitter, x: Tensor, constants: tuple[Tensor, Tensor | None], places: tuple[Shape, Shape, Shape, Shape]
) -> Tensor:
    """x [n, *spatial, in] with weights [in, out, *kernel]; ``places`` as ``transpose_conv`` has them."""
    w, bias = constants
    if len(w.shape) == 5:
        return transpose_conv_3d(g, x, g.transpose(w, (2, 3, 4, 1, 0)), bias, places)
    weights = g.transpose(_with_height(g, w), (1, 2, 3, 0))
    if len(w.shape) == 3:
        strides, full, begin, size = places
        places = ((1, *strides), (1, *full), (0, *begin), (1, *size))
    return as_image(g, x, lambda image: transpose_conv(g, image, (weights, bias), places))


def _as_conv(g: Emitter, w: Tensor, groups: int) -> Tensor:
    """Weights [in, out / groups, *kernel] of a transposed convolution as [out, in / groups, *kernel] of a convolution,
    taps backwards."""
    rank, into, out = len(w.shape) - 2, w.shape[0] // groups, w.shape[1]
    split, order = (groups, into, out, *w.shape[2:]), (0, 2, 1, *range(3, rank + 3))
    shape = (groups * out, into, *w.shape[2:])
    if w.data is not None:
        axes = tuple(range(2, rank + 2))
        quant = None if w.quant is not None and w.quant.per_channel else w.quant
        return move_constant(
            w, shape, quant, lambda data: np.flip(data.reshape(split).transpose(order).reshape(shape), axes)
        )
    flat = g.reshape(w, (*split[:3], math.prod(w.shape[2:])))  # four dimensions, as TFLM's TRANSPOSE takes
    return g.reshape(g.flip(g.transpose(flat, (0, 2, 1, 3)), 3), shape)


def _stuffed(
    g: Emitter, x: Tensor, w: Tensor, bias: Tensor | np.ndarray, window: Window, pads: Sequence[tuple[int, int]]
) -> Tensor:
    """The convolution, with strides of one, over x with zeros between its elements and this padding, which is a cut
    where it is negative."""
    x = _spread(g, x, window.strides)
    pads = [(before, after - s + 1) for (before, after), s in zip(pads, window.strides, strict=True)]
    cuts = [(max(-before, 0), max(-after, 0)) for before, after in pads]
    sizes = [n - sum(cut) for n, cut in zip(x.shape[1:-1], cuts, strict=True)]
    x = g.part(x, [0, *(cut[0] for cut in cuts), 0], (x.shape[0], *sizes, x.shape[-1]))
    padding = tuple((max(before, 0), max(after, 0)) for before, after in pads)
    return _conv(g, x, w, bias, Window(window.kernel, (1,) * len(pads), window.dilations, padding))


def _spread(g: Emitter, x: Tensor, strides: Shape) -> Tensor:
    """x [n, *spatial, c] with as many zeros behind every element as lead to the next multiple of the strides."""
    n, *size, c = x.shape
    if set(strides) == {1}:
        return x
    if len(size) == 1:
        size, strides = [1, *size], (1, *strides)
    if len(size) == 3:
        planes = _spread(g, g.reshape(x, (n * size[0], *size[1:], c)), strides[1:])
        rows = g.reshape(planes, (n, size[0], 1, math.prod(planes.shape[1:])))
        y = _spread(g, rows, (strides[0], 1))
    else:
        (h, w), (down, right) = size, strides
        y = g.pad(g.reshape(x, (n * h, 1, w, c)), [(0, 0), (0, down - 1), (0, 0), (0, (right - 1) * c)])
    return g.reshape(y, (n, *(d * s for d, s in zip(x.shape[1:-1], strides[-len(x.shape) + 2 :], strict=True)), c))


def _kept(node: OnnxNode, full: Shape, strides: Shape, size: Shape) -> tuple[Shape, Shape]:
    """Where the result begins in the full extent, and its extents. Source: ONNX's ConvTranspose."""
    rank = len(full)
    extra = tuple(node.attribute("output_padding", None) or [0] * rank)
    auto = node.attribute("auto_pad", "NOTSET")
    wanted = node.attribute("output_shape", None)
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [n * s for n, s in zip(size, strides, strict=True)]
    if wanted is not None:
        wanted = list(wanted)[-rank:]  # some exporters name batches and channels, too
        total = [f + e - n for f, e, n in zip(full, extra, wanted, strict=True)]
        less = [t // 2 for t in total]
        begin = less if auto == "SAME_UPPER" else [t - n for t, n in zip(total, less, strict=True)]
        fits = all(t > -s for t, s in zip(total, strides, strict=True))
        node.need(fits, f"output_shape {wanted} is larger than what is computed; pad it explicitly")
        return tuple(max(b, 0) for b in begin), tuple(wanted)
    pads = tuple(node.attribute("pads", [0] * 2 * rank)) if auto == "NOTSET" else (0,) * 2 * rank
    rows = zip(full, extra, pads[:rank], pads[rank:], strict=True)
    return pads[:rank], tuple(f + e - before - after for f, e, before, after in rows)


IMPORTERS = {"Conv": conv, "ConvTranspose": conv_transpose}
