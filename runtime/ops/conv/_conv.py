"""What CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED share: quantisation of sums, and packing for 16 lanes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.fixed_point import quantize_multiplier, requantize, requantize_wide, wrap32
from twinfer.runtime.graph import Node, Quant, Tensor
from twinfer.runtime.op import Array, need, need_type, unsupported
from twinfer.runtime.ops.core.activation import float_range, quantized_range
from twinfer.runtime.ops.core.quantized import need_quant, need_symmetric
from twinfer.runtime.ops.core.requantize import Channels, fast_channels
from twinfer.runtime.ops.core.window import window
from twinfer.runtime.read.packed import unpack

LANES = 16

#: Type of the activations -> types of the bias. Of 16x8, INT64 is usual.
BIAS_TYPES = {"INT8": ("INT32",), "INT16": ("INT64", "INT32"), "FLOAT32": ("FLOAT32",)}

#: Output channels beyond this only a file means that is short and says much: every channel has its multiplier.
MOST_CHANNELS = 1 << 20


@dataclass(frozen=True)
class Window:
    """Geometry of a 2-D convolution or pooling node, with the field names of the kernels' params."""

    batches: int
    in_h: int
    in_w: int
    in_c: int
    out_h: int
    out_w: int
    out_c: int
    k_h: int
    k_w: int
    stride_h: int
    stride_w: int
    dilation_h: int
    dilation_w: int
    pad_h: int
    pad_w: int

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (self.batches, self.out_h, self.out_w, self.out_c)

    @property
    def pixels(self) -> int:
        return self.batches * self.out_h * self.out_w

    def taps(self) -> Iterator[tuple[int, int]]:
        return ((ky, kx) for ky in range(self.k_h) for kx in range(self.k_w))


def window_of(node: Node, k_h: int, k_w: int, out_c: int) -> Window:
    """Geometry of a node with TFLite's stride, dilation and padding options; ModelError where nothing fits."""
    x = node.input(0)
    need(len(x.shape) == 4, node, f"{x} must have 4 dimensions (NHWC)")
    need(x.shape[0] > 0 and x.shape[3] > 0, node, f"{x} is empty")
    o = node.options
    stride_h, stride_w = int(o["stride_h"]), int(o["stride_w"])
    dilation_h, dilation_w = int(o.get("dilation_h_factor", 1)), int(o.get("dilation_w_factor", 1))
    out_h, pad_h = window(node, x.shape[1], k_h, stride_h, dilation_h, o["padding"])
    out_w, pad_w = window(node, x.shape[2], k_w, stride_w, dilation_w, o["padding"])
    b, h, w, c = x.shape
    return Window(
        b, h, w, c, out_h, out_w, out_c, k_h, k_w, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w
    )  # fmt: skip


def shifted(x: Array, g: Window, ky: int, kx: int, fill: int | float) -> Array:
    """x as tap (ky, kx) of every window sees it: [batches, out_h, out_w, in_c], ``fill`` in the padding."""
    y = np.arange(g.out_h) * g.stride_h - g.pad_h + ky * g.dilation_h
    z = np.arange(g.out_w) * g.stride_w - g.pad_w + kx * g.dilation_w
    inside = ((y >= 0) & (y < g.in_h))[:, None] & ((z >= 0) & (z < g.in_w))[None, :]
    seen = x[:, y.clip(0, g.in_h - 1)][:, :, z.clip(0, g.in_w - 1)]
    return np.where(inside[None, :, :, None], seen, np.asarray(fill, x.dtype))


def check_types(node: Node, channels: int) -> None:
    """Types, bias shape and quantisation of input 0, weights (input 1), bias (input 2, optional) and output 0."""
    x, w, bias, y = node.input(0), node.input(1), node.optional(2), node.output
    if channels > MOST_CHANNELS:
        raise unsupported(node, f"{w} makes {channels} output channels, {MOST_CHANNELS} are the limit; split it")
    need_type(node, x, "INT8", "INT16", "FLOAT32")
    if not is_hybrid(node):
        need_type(node, w, "INT8" if x.type == "INT16" else x.type)
    need_type(node, y, x.type)
    if bias is not None:
        need_type(node, bias, *BIAS_TYPES[x.type])
        need(bias.size == channels, node, f"{bias} must have {channels} elements, one an output channel")
    if is_hybrid(node):
        weight_scales(node, channels)
        check_symmetric(node)
        need(all(t is None or t.data is not None for t in node.inputs[1:]), node, "weights and bias must be constants")
    if x.type in ("INT8", "INT16"):
        weight_scales(node, channels)
        need_symmetric(node, x, y)
        quantized_range(node, y)
    if x.type == "INT16":
        _check_symmetric_16(node)


def check_symmetric(node: Node) -> None:
    """ModelError if quantised weights have a zero point other than 0."""
    w = node.input(1)
    if w.type == "INT8" and w.quant is not None:
        need(not w.quant.zero_point.any(), node, f"{w} must have zero points of 0")


def _check_symmetric_16(node: Node) -> None:
    """What 16x8 asks for beside. TFLM takes a bias of 32 bits in CONV_2D and FULLY_CONNECTED only."""
    check_symmetric(node)
    bias = node.optional(2)
    if bias is not None and node.op not in ("CONV_2D", "FULLY_CONNECTED"):
        need_type(node, bias, "INT64")


def unpacked(node: Node) -> Node:
    """The node with constant INT4 weights as INT8."""
    w = node.input(1)
    if w.type != "INT4" or w.data is None:
        return node
    values = replace(w, type="INT8", data=unpack(w.data, 4, w.shape))
    return replace(node, inputs=(node.inputs[0], values, *node.inputs[2:]))


def narrow_sums(node: Node) -> bool:
    """Whether sums are of 32 bits: always for int8, for int16 if the bias is."""
    bias = node.optional(2)
    return node.input(0).type == "INT8" or (bias is not None and bias.type == "INT32")


def is_hybrid(node: Node) -> bool:
    """Whether float activations meet int8 weights: LiteRT's dynamic-range ("hybrid") operators."""
    return node.input(0).type == "FLOAT32" and node.input(1).type == "INT8"


def weight_scales(node: Node, channels: int) -> NDArray[np.float64]:
    """Scale of every output channel, [channels]; ModelError if there is no such quantisation."""
    w = node.input(1)
    need(w.quant is not None, node, f"{w} has no quantisation")
    quant = w.quant or Quant.per_tensor(0.0)
    scales, zeros = quant.scale.astype(np.float64), quant.zero_point
    need(scales.size in (1, channels), node, f"{w} has {scales.size} scales for {channels} output channels")
    usable = bool(np.isfinite(scales).all() and (scales >= 0).all())
    need(usable, node, f"{w} has a scale that is negative or no number")
    in_type = zeros.size == scales.size and bool((np.abs(zeros + 0.5) < 128).all())
    need(in_type, node, f"{w} has zero points outside of its type, or not one for each scale")
    return np.broadcast_to(scales, (channels,)) if scales.size == 1 else scales


def multipliers(node: Node, channels: int) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Fixed-point multiplier and shift of every output channel: in_scale * w_scale / out_scale in float64."""
    x, y = node.input(0), node.output
    scales = weight_scales(node, channels)
    need_quant(node, x, y)
    pairs = [quantize_multiplier(x.scale * float(s) / y.scale) for s in scales]
    return np.array([m for m, _ in pairs], np.int32), np.array([s for _, s in pairs], np.int8)


def bias_of(node: Node, channels: int) -> Tensor | Array:
    """The bias input, or zeros where there is none."""
    bias = node.optional(2)
    if bias is not None:
        return bias
    return np.zeros(channels, np.float32 if node.input(0).type == "FLOAT32" else np.int32)


def constant_bias(node: Node, channels: int) -> Array | None:
    """The bias's value, zeros where there is none, None where it is computed at run time."""
    bias = bias_of(node, channels)
    value = bias if isinstance(bias, np.ndarray) else bias.data
    return None if value is None else value.reshape(-1)


def finish(node: Node, acc: Array) -> list[Array]:
    """The numpy meaning of the end of an integer sum [..., channels]: requantise, add the zero point, clamp."""
    y = node.output
    mult, shift = multipliers(node, acc.shape[-1])
    low, high = quantized_range(node, y)
    if narrow_sums(node):
        out = wrap32(requantize(wrap32(acc), mult, shift) + y.zero)
    else:
        out = requantize_wide(acc, mult, shift)
    return [out.clip(low, high).astype(y.dtype).reshape(y.shape)]


def padded(values: Array, multiple: int = LANES, axis: int = 0) -> Array:
    """``values`` with zeros behind, so that ``axis`` becomes a multiple."""
    pads = [(0, 0)] * values.ndim
    pads[axis] = (0, -values.shape[axis] % multiple)
    return np.pad(values, pads)


def pack_s8(w: Array) -> Array:
    """int8 weights [out, k] as kernels_c/isa/wide/wide.h reads them: [out / 16][k / 4][16][4]."""
    blocks = padded(padded(w, LANES, 0), 4, 1)
    out, k = blocks.shape
    return np.ascontiguousarray(blocks.reshape(out // LANES, LANES, k // 4, 4).transpose(0, 2, 1, 3))


def pack_f32(w: Array) -> Array:
    """float32 weights [out, k] as [out / 16][k][16]."""
    blocks = padded(w, LANES, 0)
    return np.ascontiguousarray(blocks.reshape(-1, LANES, w.shape[1]).transpose(0, 2, 1))


def fold_zero(w: Array, bias: Array, offset: int) -> NDArray[np.int32]:
    """bias - offset * (sum of each channel's weights), wrapped to int32; w: [out, k]."""
    return wrap32(bias.astype(np.int64) - offset * w.astype(np.int64).sum(axis=1)).astype(np.int32)


def channels_of(node: Node, w: Array, bias: Array) -> Channels:
    """The channels of int8 weights [out, k] and bias int32 [out], the input zero point folded in."""
    y = node.output
    folded = fold_zero(w, bias, node.input(0).zero)
    return Channels(w, folded, *multipliers(node, len(w)), y.zero, *quantized_range(node, y))


def plain_channels(node: Node, w: Array, bias: Array) -> tuple[Channels, bool]:
    """The channels for the plain kernels, and whether tw_scaled suits them."""
    channels = channels_of(node, w, bias)
    fast = fast_channels(channels)
    return fast or channels, fast is not None


def hybrid_ends(node: Node, channels: int) -> tuple[Array, Array]:
    """Scales of the weights and the bias of a hybrid node, float32 [channels]."""
    bias = node.optional(2)
    start = np.zeros(channels, np.float32) if bias is None or bias.data is None else bias.data.reshape(-1)
    return weight_scales(node, channels).astype(np.float32), start


def quantize_dynamic(x: Array, symmetric: bool) -> tuple[Array, np.float32, int]:
    """Float values as int8 with their scale and zero point, by their own range.

    Source: LiteRT's SymmetricQuantizeFloats and AsymmetricQuantizeFloats.
    """
    low, high = np.float32(min(x.min(), 0)), np.float32(max(x.max(), 0))
    if low >= high:
        return np.zeros(x.shape, np.int8), np.float32(1), 0
    if symmetric:
        span = max(-low, high)
        scale, zero, inverse = span / np.float32(127), 0, np.float32(127) / span
    else:
        step = (float(high) - float(low)) / 255.0
        at_low, at_high = float(low) / step, float(high) / step
        nudged = -128.0 - at_low if 128.0 + abs(at_low) < 127.0 + abs(at_high) else 127.0 - at_high
        zero = int(np.clip(math.copysign(math.floor(abs(nudged) + 0.5), nudged), -128, 127))
        scale, inverse = np.float32(step), np.float32(1) / np.float32(step)
    real = np.float32(zero) + x * inverse
    rounded = np.copysign(np.floor(np.abs(real.astype(np.float64)) + 0.5), real)
    return rounded.clip(-127 if symmetric else -128, 127).astype(np.int8), scale, zero


def symmetric_hybrid(node: Node) -> bool:
    """Whether a hybrid node quantises its images symmetrically: LiteRT's CONV_2D does if all channels' scales agree."""
    quant = node.input(1).quant
    return node.op == "CONV_2D" and quant is not None and bool((quant.scale == quant.scale[0]).all())


def convolve(node: Node, inputs: list[Any], sums: Callable[[Array], Array]) -> list[Array]:
    """The numpy meaning of a convolution around its ``sums`` [batches, out_h, out_w, out_c], without a bias.

    ``sums`` takes images [batches, h, w, c]: float32, or float64 that hold integers, which it sums exactly.
    """
    x = inputs[0]
    if is_hybrid(node):
        return _convolve_hybrid(node, x, sums)
    bias = inputs[2].reshape(-1) if len(inputs) > 2 and inputs[2] is not None else np.zeros(1, np.int32)
    if x.dtype.kind == "i":
        return finish(node, sums(x.astype(np.float64) - node.input(0).zero).astype(np.int64) + bias)
    low, high = float_range(node)
    return [(sums(x) + bias.astype(np.float32)).clip(np.float32(low), np.float32(high))]


def _convolve_hybrid(node: Node, x: Array, sums: Callable[[Array], Array]) -> list[Array]:
    scales, bias = hybrid_ends(node, node.output.shape[-1])
    low, high = float_range(node)
    symmetric = symmetric_hybrid(node)
    made = []
    for image in x:
        q, scale, zero = quantize_dynamic(image, symmetric)
        acc = sums(q[None].astype(np.float64) - zero)[0].astype(np.float32)
        real = acc * (scale * scales) if symmetric else acc * scales * scale
        made.append((real + bias).clip(np.float32(low), np.float32(high)))
    return [np.array(made, np.float32)]


def lane_epilogue(node: Node, channels: int) -> tuple[Array, Array, Array]:
    """mult, left and right shift of every channel as int32, padded to whole blocks of 16 lanes."""
    mult, shift = multipliers(node, channels)
    wide = shift.astype(np.int32)
    return padded(mult), padded(np.maximum(wide, 0)), padded(np.maximum(-wide, 0))
