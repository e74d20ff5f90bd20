"""CONV_2D, NHWC with weights [out_c, k_h, k_w, in_c / groups]."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from twinfer.runtime import constant
from twinfer.runtime.constant import requantize, sums_of_weights, weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, unsupported
from twinfer.runtime.ops.conv import _conv
from twinfer.runtime.ops.conv._layer import beyond, geometry
from twinfer.runtime.ops.core import plain_s16
from twinfer.runtime.ops.core.activation import output_range
from twinfer.runtime.ops.core.channels import (
    bias_of,
    channel_constants,
    epilogue,
    fold_zero,
    known_bias,
    multipliers,
    plain_channels,
)
from twinfer.runtime.ops.core.hybrid import hybrid_constants, is_hybrid, symmetric_hybrid
from twinfer.runtime.ops.core.layer_cases import Layer, with_equal_scales
from twinfer.runtime.ops.core.madd import float_kernel, is_fused, madd
from twinfer.runtime.ops.core.packing import LANES, LANES_S8, pack_s8
from twinfer.runtime.ops.core.unsigned import less_zero, weight_zero
from twinfer.runtime.ops.core.weights import check_symmetric, check_types, unpacked
from twinfer.runtime.ops.core.window import Window, inside, shifted
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target

#: Pixels of a tile of tw_conv2d_s8 (core/sums.h) but on cores with eight low registers, where it is one.
TILE_PIXELS = 2


def infer(node: Node) -> list[Shape]:
    node = unpacked(node)
    x, w = node.input(0), node.input(1)
    need(len(w.shape) == 4 and w.size > 0, node, f"{w} must have 4 dimensions [out_c, k_h, k_w, in_c / groups]")
    g = geometry(node)
    need(g.in_c % w.shape[3] == 0, node, f"{x} has {g.in_c} channels, not a multiple of the {w.shape[3]} of {w}")
    groups = g.in_c // w.shape[3]
    need(g.out_c % groups == 0, node, f"{g.out_c} output channels do not divide into {groups} groups")
    check_types(node, g.out_c)
    check_symmetric(node)
    return [g.shape]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Source: TFLM reference ConvPerChannel and Conv (float sums in order of row, column, channel)."""
    return _conv.slide(node, inputs, partial(_sums, fused=is_fused(node)))


def _sums(x: Array, w: Array, g: Window, fused: bool) -> Array:
    """The sums of every output, [batches, out_h, out_w, out_c]: float64 (exact for integers) or float32 in order."""
    depth = w.shape[3]
    group = g.out_c // (g.in_c // depth)
    acc = np.zeros((len(x), *g.shape[1:]), x.dtype)
    for ky, kx in g.taps():
        seen, valid = shifted(x, g, ky, kx, 0), inside(g, ky, kx)
        for first in range(0, g.out_c, group):
            part = seen[..., first // group * depth :][..., :depth]
            tap = w[first : first + group, ky, kx].astype(x.dtype)
            if x.dtype == np.float64:
                acc[..., first : first + group] += part @ tap.T
                continue
            for c in range(depth):  # 0 in the padding times an infinite weight would be NaN
                sums = acc[..., first : first + group]
                sums[...] = np.where(valid, madd(part[..., c, None], tap[:, c], sums, fused), sums)
    return acc


def lower(node: Node, target: Target) -> Call:
    """The call in plain C, which serves every node."""
    node = unpacked(node)
    g, w = geometry(node), node.input(1)
    macs = g.pixels * w.size
    if is_hybrid(node):
        return _lower_hybrid(node, g, macs)
    if node.input(0).type == "INT16":
        return lower_s16(node, g, node.constant(1), macs)
    if node.input(0).type == "FLOAT32":
        floats: dict[str, Param] = {"window": g.params, "limits": output_range(node), "depth": w.shape[3]}
        inputs = (node.input(0), w, bias_of(node, g.out_c))
        return Call(float_kernel("tw_conv2d", node), floats, inputs, (node.output,), macs=macs, rows=g.by_rows())
    pixels = 1 if target.has("armv6-m") else TILE_PIXELS
    return lower_s8(node, g, node.constant(1).reshape(g.out_c, -1), macs, pixels)


def _lower_zero(node: Node, g: Window, w: Array, macs: int) -> Call:
    """The call with weights as in ``lower_s8`` that have a zero point."""
    x, zero = node.input(0), weight_zero(node.input(1))
    depth = w.shape[1] // (g.k_h * g.k_w)
    params = {"window": g.params, "depth": depth, "end": epilogue(node), "in_zero": x.zero, "w_zero": zero}
    mult, shift = multipliers(node, g.out_c)
    folded = constant.bias(fold_zero(less_zero(w, zero), known_bias(node, g.out_c), x.zero))
    inputs = (x, weights(np.ascontiguousarray(w)), folded, requantize(mult), requantize(shift))
    scratch = w.shape[1] if g.k_h * g.k_w > 1 else 0
    return Call(
        "tw_conv2d_zero_s8", params, inputs, (node.output,), scratch, macs=macs, weights=Weights(), rows=g.by_rows()
    )


def lower_s16(node: Node, g: Window, w: Array, macs: int) -> Call:
    """The call with int16 activations and int8 weights [out_c, k_h, k_w, in_c / groups]; also for DEPTHWISE_CONV_2D."""
    call = plain_s16.call("tw_conv2d_s16", node, w, {"window": g.params, "depth": w.shape[3]}, macs)
    return replace(call, rows=g.by_rows())


def lower_s8(node: Node, g: Window, w: Array, macs: int, pixels: int = TILE_PIXELS) -> Call:
    """The call with weights int8 [out_c, k_h * k_w * in_c / groups]; also for DEPTHWISE_CONV_2D of one channel.

    The kernel takes ``pixels`` at once.
    """
    if weight_zero(node.input(1)):
        return _lower_zero(node, g, w, macs)
    c, fast = plain_channels(node, w, known_bias(node, g.out_c))
    depth = w.shape[1] // (g.k_h * g.k_w)
    ends = {"end": epilogue(node), "in_zero": node.input(0).zero, "fast": int(fast)}
    params = {"window": g.params, "depth": depth, **ends}
    scratch = 2 * w.shape[1] if g.k_h * g.k_w > 1 else 0
    inputs, rows = (node.input(0), weights(np.ascontiguousarray(c.weights)), *channel_constants(c)), g.by_rows(pixels)
    return Call("tw_conv2d_s8", params, inputs, (node.output,), scratch, macs=macs, weights=Weights(), rows=rows)


def _lower_hybrid(node: Node, g: Window, macs: int) -> Call:
    """The call with float activations and int8 weights; UnsupportedOperatorError if the convolution has groups."""
    w = node.constant(1)
    if w.shape[3] != g.in_c:
        raise unsupported(node, "grouped convolution with float activations and int8 weights has no kernel")
    w = w.reshape(g.out_c, -1)
    k4, rows = -(-w.shape[1] // 4) * 4, 8
    symmetric = int(symmetric_hybrid(node))
    tile = {"k4": k4, "symmetric": symmetric, "together": symmetric, "vector": 0}
    params: dict[str, Param] = {"window": g.params, "limits": output_range(node), **tile}
    sums = sums_of_weights(w.sum(1, dtype=np.int32))
    inputs = (node.input(0), weights(pack_s8(w), LANES_S8), sums, *hybrid_constants(node, g.out_c))
    image = -(-g.image // 16) * 16
    scratch = image + rows * k4 + rows * 4 * -(-g.out_c // LANES) * LANES
    inplace = (0,) if g.batches == 1 else ()  # the whole image is quantised before the first output
    outputs = (node.output,)
    return Call("tw_conv2d_hybrid", params, inputs, outputs, scratch, inplace=inplace, macs=macs, weights=Weights())


DEFAULTS = {
    "padding": "SAME", "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1,
    "fused_activation_function": "NONE",
}  # fmt: skip


def _case(rng: np.random.Generator, x_shape: Shape, w_shape: Shape, layer: Layer | None = None, **o: Any) -> Case:
    layer = layer or Layer()
    return layer.case(rng, "CONV_2D", (x_shape, w_shape), lambda n: geometry(n).shape, {**DEFAULTS, **o})


def cases(rng: np.random.Generator) -> Iterator[Case]:
    yield from _window_cases(rng, "INT8")
    yield from _window_cases(rng, "FLOAT32")
    for padding in ("SAME", "VALID"):
        yield _case(rng, (2, 5, 6, 3), (8, 3, 3, 3), Layer("HYBRID"), padding=padding)
        yield _case(rng, (1, 9, 5, 4), (17, 1, 2, 4), Layer("HYBRID"), padding=padding, stride_h=2)
        yield _case(rng, (2, 5, 6, 3), (8, 3, 3, 3), Layer("HYBRID", per_tensor=True), padding=padding)
    for zero, out_zero in ((-128, 127), (127, -128)):
        yield _case(rng, (1, 6, 4, 8), (16, 3, 3, 8), Layer(zero=zero, out_zero=out_zero))
    yield _case(rng, (1, 6, 4, 8), (16, 3, 3, 8), Layer(out_scale=0.0001))  # multiplier above 1: a left shift
    yield _case(rng, (1, 6, 4, 8), (16, 3, 3, 8), Layer(out_scale=1000.0))
    for x_shape, w_shape in (  # pixels and channels around the edges of tiles
        ((1, 3, 5, 8), (3, 1, 1, 8)), ((3, 1, 1, 17), (9, 1, 1, 17)), ((1, 2, 2, 32), (4, 1, 1, 32)),
        ((3, 4, 2, 2), (2, 4, 2, 2)), ((1, 3, 1, 16), (6, 3, 2, 16)),
    ):  # fmt: skip
        yield _case(rng, x_shape, w_shape, Layer(bound=1 << 20))
    yield _case(rng, (1, 9, 4, 3), (5, 3, 2, 3), dilation_h_factor=4)
    yield from _winograd_cases(rng)
    yield from _wide_cases(rng)
    yield from _grouped_cases(rng)
    yield from _line_cases(rng)
    for padding in ("SAME", "VALID"):  # tiles of 4 x 4 outputs, Winograd's on computers
        yield _case(rng, (1, 11, 14, 9), (17, 3, 3, 9), Layer(bound=1 << 16), padding=padding)
    yield from _halves_cases(rng)
    yield from _sparse_cases(rng)


def _window_cases(rng: np.random.Generator, kind: str) -> Iterator[Case]:
    """All strides, paddings and dilations, groups, activations."""
    layer = Layer(kind, bound=9000)
    for padding in ("SAME", "VALID"):
        for x_shape, w_shape, (h, w) in (
            ((1, 5, 6, 3), (8, 3, 3, 3), (1, 1)), ((1, 9, 7, 4), (17, 3, 2, 4), (2, 1)),
            ((2, 6, 5, 16), (33, 1, 1, 16), (1, 1)), ((1, 8, 8, 5), (16, 1, 1, 5), (2, 2)),
            ((1, 12, 10, 1), (20, 10, 4, 1), (2, 2)), ((2, 4, 3, 2), (1, 4, 3, 2), (1, 3)),
        ):  # fmt: skip
            yield _case(rng, x_shape, w_shape, layer, padding=padding, stride_h=h, stride_w=w)
    yield _case(rng, (1, 9, 9, 2), (5, 3, 3, 2), layer, dilation_h_factor=2, dilation_w_factor=3)
    yield _case(rng, (1, 9, 9, 2), (5, 3, 2, 2), layer, padding="VALID", dilation_w_factor=2)
    yield _case(rng, (1, 6, 6, 4), (6, 3, 3, 2), layer)  # two groups
    yield _case(rng, (1, 3, 3, 2), (4, 5, 5, 2), layer)  # a window larger than the image
    yield _case(rng, (1, 1, 1, 1), (1, 1, 1, 1), layer)
    for out_c in (2, 3, 6):  # around the plain kernels' tiles, an odd number of pixels
        yield _case(rng, (1, 3, 3, 9), (out_c, 1, 1, 9), layer)
    yield _case(rng, (1, 4, 4, 3), (7, 2, 2, 3), Layer(kind, bias=False))
    for act in ("RELU", "RELU6", "RELU_N1_TO_1"):
        yield _case(rng, (1, 4, 4, 3), (7, 3, 3, 3), layer, fused_activation_function=act)


def _winograd_cases(rng: np.random.Generator) -> Iterator[Case]:
    """3 x 3 taps over tiles of 2 x 2 outputs: some of them partial, channels and tiles around the edges of panels."""
    for x_shape, out_c in (((1, 5, 7, 8), 6), ((2, 7, 8, 13), 5), ((1, 8, 15, 4), 2), ((1, 4, 6, 20), 1)):
        for padding in ("SAME", "VALID"):
            yield _case(rng, x_shape, (out_c, 3, 3, x_shape[3]), Layer(bound=1 << 16), padding=padding)
    for zero in (-128, 127):
        yield _case(rng, (1, 6, 7, 9), (4, 3, 3, 9), Layer(zero=zero, lowest=True), fused_activation_function="RELU")


def _halves_cases(rng: np.random.Generator) -> Iterator[Case]:
    """Weights of 16 bits, of pairs of channels: as many words as there are rests of a round, rows of taps that are no
    whole words, outputs that end at their zero point or are halfway between two, long shifts."""
    for depth in (4, 12, 20, 28, 30, 36):
        for pixels in (3, 5):
            yield _case(rng, (1, 1, pixels, depth), (4, 1, 1, depth), Layer(bound=1 << 14))
    relu = {"fused_activation_function": "RELU"}
    for layer in (Layer(out_zero=-128), Layer(out_zero=-128, halves=True), Layer(out_zero=5, zero=-128)):
        yield _case(rng, (1, 7, 6, 3), (6, 3, 3, 3), layer, **relu)
        yield _case(rng, (2, 7, 6, 1), (2, 4, 2, 1), layer, stride_h=2, stride_w=2, **relu)
        yield _case(rng, (1, 7, 9, 2), (2, 2, 3, 2), layer, dilation_h_factor=2, padding="VALID", **relu)
    long = Layer(out_zero=-128, out_scale=2.0, bound=1 << 20)
    yield _case(rng, (1, 4, 5, 16), (8, 1, 1, 16), long, **relu)


def _wide_cases(rng: np.random.Generator) -> Iterator[Case]:
    """int16 activations, and weights of 4 and 2 bits."""
    wide = Layer("INT16", bound=1 << 24)
    for padding in ("SAME", "VALID"):
        yield _case(rng, (2, 5, 6, 3), (8, 3, 3, 3), wide, padding=padding)
        yield _case(rng, (1, 9, 7, 4), (17, 3, 2, 4), wide, padding=padding, stride_h=2)
        yield _case(rng, (1, 9, 9, 2), (5, 3, 2, 2), wide, padding=padding, dilation_h_factor=2, dilation_w_factor=3)
    yield _case(rng, (1, 2, 3, 300), (3, 1, 1, 300), wide, fused_activation_function="RELU")
    yield _case(rng, (1, 1, 3, 1100), (3, 1, 1, 1100), wide)  # sums beyond 32 bits
    yield _case(rng, (1, 6, 6, 4), (6, 3, 3, 2), wide)  # two groups
    yield _case(rng, (1, 4, 4, 3), (7, 2, 2, 3), Layer("INT16", bias=False))
    yield _case(rng, (1, 6, 6, 4), (6, 3, 3, 4), Layer("INT16", bias_type="INT32"))
    yield _case(rng, (1, 6, 6, 4), (6, 3, 3, 4), Layer("INT16", out_scale=1e-5))  # a left shift
    for x_shape, w_shape in (
        ((1, 5, 6, 3), (8, 3, 3, 3)),
        ((2, 3, 4, 17), (9, 1, 1, 17)),
        ((1, 6, 6, 4), (6, 3, 1, 2)),
    ):
        yield _case(rng, x_shape, w_shape, Layer("INT4"))
        why = "neither TFLM nor LiteRT takes INT2 here"
        yield replace(_case(rng, x_shape, w_shape, Layer("INT2")), oracle="none", why=why)
    for kind in ("INT8", "INT16"):
        yield _case(rng, (1, 4, 5, 4), (17, 1, 1, 4), Layer(kind, bound=9, halves=True))
        yield _case(rng, (1, 4, 5, 1), (6, 2, 2, 1), Layer(kind, bound=9, halves=True))
    yield from _hybrid_cases(rng)


def _hybrid_cases(rng: np.random.Generator) -> Iterator[Case]:
    """Images of one sign, or the same everywhere; one output channel, and several with the same scale."""
    for channels in (1, 5):
        case = _case(rng, (2, 4, 5, 3), (channels, 2, 2, 3), Layer("HYBRID"))
        above = rng.uniform(2, 3, case.node.input(0).shape).astype(np.float32)
        yield from (replace(case, inputs=(values,)) for values in (above, above - 2, -above, 0 * above))
    yield with_equal_scales(case)


def _grouped_cases(rng: np.random.Generator) -> Iterator[Case]:
    """Groups of channels, and gaps between the taps of int16."""
    wide = Layer("INT16", bound=1 << 24)
    yield _case(rng, (2, 5, 4, 9), (9, 3, 2, 3), wide, stride_h=2)  # three groups of three channels
    yield _case(rng, (1, 3, 7, 12), (20, 1, 3, 3), wide, dilation_w_factor=2, fused_activation_function="RELU6")
    yield _case(rng, (1, 1, 13, 5), (6, 1, 4, 5), wide, padding="VALID", dilation_w_factor=3)  # a filter in time
    for x_shape, w_shape in (
        ((2, 5, 3, 8), (10, 3, 2, 4)),
        ((1, 3, 7, 24), (99, 2, 1, 8)),
        ((1, 4, 4, 12), (3, 1, 1, 4)),
    ):
        yield _case(rng, x_shape, w_shape, Layer(bound=1 << 20))  # groups of whole words
        yield _case(rng, x_shape, w_shape, Layer(zero=-128), stride_h=2, fused_activation_function="RELU")
    yield _case(rng, (1, 5, 7, 16), (8, 2, 3, 8), Layer(per_tensor=True), dilation_w_factor=2)
    for act in ("NONE", "RELU"):  # whole vectors of channels, an even and an odd number of columns
        yield _case(rng, (2, 5, 7, 16), (17, 3, 3, 16), Layer(), fused_activation_function=act)
        yield _case(rng, (2, 7, 4, 32), (8, 2, 3, 32), Layer(), fused_activation_function=act, dilation_h_factor=2)


def _line_cases(rng: np.random.Generator) -> Iterator[Case]:
    """Three taps along a line, with gaps, for tiles of two outputs: some of them partial; images of several lines."""
    for x_shape, w_shape, gap in (
        ((1, 12, 2, 8), (5, 3, 1, 8), 1), ((1, 24, 1, 20), (2, 3, 1, 20), 4),
        ((2, 1, 15, 12), (3, 1, 3, 12), 2), ((1, 12, 2, 13), (4, 3, 1, 13), 1),
    ):  # fmt: skip
        gaps = {"dilation_h_factor": gap, "dilation_w_factor": gap}
        for padding in ("SAME", "VALID"):
            yield _case(rng, x_shape, w_shape, Layer(bound=1 << 16), padding=padding, **gaps)
    for zero in (-128, 127):
        layer = Layer(zero=zero, lowest=True)
        yield _case(rng, (1, 3, 7, 8), (4, 1, 3, 8), layer, fused_activation_function="RELU")


def _sparse_cases(rng: np.random.Generator) -> Iterator[Case]:
    """Blocks of weights that are zero: some, nearly all, all; channels and pixels around the edges of tiles."""
    for tall, zeros, zero in ((1, 0.7, 3), (1, 0.95, -128), (4, 0.7, 5), (16, 0.7, 127), (16, 0.9, -3), (1, 1.0, 127)):
        layer = Layer(bound=1 << 16, zeros=zeros, zero=zero, tall=tall)
        yield _case(rng, (1, 3, 7, 40), (21, 1, 1, 40), layer)
        yield _case(rng, (2, 5, 4, 12), (18, 3, 2, 12), layer, stride_h=2, fused_activation_function="RELU6")
        yield _case(rng, (1, 1, 1, 70), (35, 1, 1, 70), layer)
        yield _case(rng, (1, 6, 5, 8), (17, 3, 3, 8), layer, dilation_w_factor=2)
        yield _case(rng, (1, 4, 5, 64), (32, 1, 1, 64), layer._replace(per_tensor=True, lowest=tall == 4))


OP = Op("CONV_2D", infer, reference, lower, cases, beyond=beyond, uint8="layer", packed_weights=True)
