"""DEPTHWISE_CONV_2D, NHWC with weights [1, k_h, k_w, out_c], out_c = in_c * depth multiplier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need
from twinfer.runtime.ops.conv import _conv, conv2d
from twinfer.runtime.ops.conv._layer import beyond, geometry
from twinfer.runtime.ops.core.activation import output_range
from twinfer.runtime.ops.core.channels import (
    bias_of,
    channel_constants,
    constant_bias,
    epilogue,
    known_bias,
    plain_channels,
)
from twinfer.runtime.ops.core.hybrid import hybrid_constants, is_hybrid
from twinfer.runtime.ops.core.layer_cases import Layer, with_equal_scales
from twinfer.runtime.ops.core.madd import float_kernel, is_fused, madd
from twinfer.runtime.ops.core.unsigned import less_zero, weight_zero
from twinfer.runtime.ops.core.weights import check_symmetric, check_types, unpacked
from twinfer.runtime.ops.core.window import Window, inside, shifted
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target

#: Channels that kernels_c/depthwise/depthwise_conv2d.h gathers at a time.
CHANNELS = 32


def infer(node: Node) -> list[Shape]:
    node = unpacked(node)
    x, w = node.input(0), node.input(1)
    need(len(w.shape) == 4 and w.shape[0] == 1 and w.size > 0, node, f"{w} must have the shape [1, k_h, k_w, out_c]")
    g = geometry(node)
    need(g.out_c % g.in_c == 0, node, f"{w} has {g.out_c} channels, not a multiple of the {g.in_c} of {x}")
    said = int(node.options.get("depth_multiplier", 0))
    need(said in (0, g.out_c // g.in_c), node, f"depth multiplier {said} with {g.in_c} channels in and {g.out_c} out")
    check_types(node, g.out_c)
    check_symmetric(node)
    return [g.shape]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Source: TFLM reference DepthwiseConvPerChannel and DepthwiseConv (float sums in order of row and column)."""
    return _conv.slide(node, inputs, partial(_sums, fused=is_fused(node)))


def _sums(x: Array, w: Array, g: Window, fused: bool) -> Array:
    acc = np.zeros((len(x), *g.shape[1:]), x.dtype)
    for ky, kx in g.taps():
        part = np.repeat(shifted(x, g, ky, kx, 0), g.out_c // g.in_c, axis=3)
        acc = np.where(inside(g, ky, kx), madd(part, w[0, ky, kx].astype(x.dtype), acc, fused), acc)
    return acc


def lower(node: Node, target: Target) -> Call:
    """The call in plain C, which serves every node. int16 runs as a CONV_2D with one group per input channel."""
    node = unpacked(node)
    g, x, w = geometry(node), node.input(0), node.input(1)
    macs = g.pixels * w.size
    if is_hybrid(node):
        return _lower_hybrid(node, g, macs)
    if x.type == "INT16":
        turned = np.ascontiguousarray(node.constant(1).transpose(3, 1, 2, 0))
        return conv2d.lower_s16(node, g, turned, macs)
    if x.type == "FLOAT32":
        multiplier = g.out_c // g.in_c
        floats: dict[str, Param] = {"window": g.params, "multiplier": multiplier, "limits": output_range(node)}
        inputs = (x, w, bias_of(node, g.out_c))
        kernel = float_kernel("tw_depthwise_conv2d", node)
        return Call(kernel, floats, inputs, (node.output,), macs=macs, rows=g.by_rows())
    zero = weight_zero(w)
    if g.in_c == 1 and not zero and w.data is not None and constant_bias(node, g.out_c) is not None:
        return conv2d.lower_s8(node, g, w.data.reshape(-1, g.out_c).T, macs)
    return _lower_s8(node, g, zero, macs)


def _lower_s8(node: Node, g: Window, zero: int, macs: int) -> Call:
    taps = less_zero(node.constant(1).reshape(-1, g.out_c).T, zero)
    c, short = plain_channels(node, taps, known_bias(node, g.out_c))
    inputs = (node.input(0), weights(np.ascontiguousarray(c.weights.T)), *channel_constants(c))
    columns = (g.k_w - 1) * g.dilation_w + 1 + g.stride_w
    scratch = g.k_h * columns * min(g.in_c, CHANNELS)
    numbers = {"multiplier": g.out_c // g.in_c, "in_zero": node.input(0).zero, "fast": int(short)}
    params: dict[str, Param] = {"window": g.params, "end": epilogue(node), **numbers}
    kernel, stored = ("tw_depthwise_conv2d_w16_s8", None) if zero else ("tw_depthwise_conv2d_s8", Weights())
    return Call(kernel, params, inputs, (node.output,), scratch, macs=macs, weights=stored, rows=g.by_rows())


def _lower_hybrid(node: Node, g: Window, macs: int) -> Call:
    params: dict[str, Param] = {"window": g.params, "limits": output_range(node), "multiplier": g.out_c // g.in_c}
    inputs = (node.input(0), node.input(1), *hybrid_constants(node, g.out_c))
    scratch = -(-g.image // 16) * 16 + 4 * g.out_c
    kernel, outputs = "tw_depthwise_conv2d_hybrid", (node.output,)
    inplace = (0,)  # every image is quantised before its first output
    return Call(kernel, params, inputs, outputs, scratch, inplace=inplace, macs=macs, weights=Weights())


def _case(
    rng: np.random.Generator,
    x_shape: Shape,
    k: tuple[int, int],
    multiplier: int = 1,
    layer: Layer | None = None,
    **o: Any,
) -> Case:
    shapes = (x_shape, (1, *k, x_shape[3] * multiplier))
    options = {**conv2d.DEFAULTS, "depth_multiplier": multiplier, **o}
    return (layer or Layer()).case(rng, "DEPTHWISE_CONV_2D", shapes, lambda n: geometry(n).shape, options, axis=3)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    yield from _window_cases(rng, "INT8")
    yield from _window_cases(rng, "FLOAT32")
    for padding in ("SAME", "VALID"):
        yield _case(rng, (2, 5, 6, 17), (3, 3), 1, Layer("HYBRID"), padding=padding)
        yield _case(rng, (1, 5, 7, 3), (3, 2), 2, Layer("HYBRID"), padding=padding, stride_h=2, stride_w=2)
    for channels, h, w in ((8, 1, 1), (24, 4, 1), (40, 1, 3)):  # strides beyond the window; the last lanes unused
        yield _case(rng, (1, 7, 9, channels), (3, 3), 1, Layer(), stride_h=h, stride_w=w)
    for zero, out_zero in ((-128, 127), (127, -128)):
        yield _case(rng, (1, 6, 5, 8), (3, 3), 1, Layer(zero=zero, out_zero=out_zero))
    yield _case(rng, (1, 6, 5, 8), (3, 3), 1, Layer(out_scale=0.0001))  # multiplier above 1: a left shift
    yield _case(rng, (1, 6, 5, 8), (3, 3), 1, Layer(out_scale=1000.0))
    yield from _cases_3x3(rng)
    yield from _wide_cases(rng)
    one = _case(rng, (2, 5, 6, 3), (3, 3), 1, Layer("HYBRID", per_tensor=True))
    yield replace(one, oracle="none", why="LiteRT reads beyond the only scale")
    yield from _end_cases(rng)
    for kind in ("INT8", "INT16", "FLOAT32"):  # windows that see nothing but padding
        yield _case(rng, (1, 1, 2, 8), (2, 1), 1, Layer(kind), dilation_h_factor=4)
        yield _case(rng, (1, 5, 2, 9), (3, 2), 1, Layer(kind), dilation_w_factor=5)


def _window_cases(rng: np.random.Generator, kind: str) -> Iterator[Case]:
    """All strides, paddings and dilations, several multipliers, activations."""
    layer = Layer(kind)
    for padding in ("SAME", "VALID"):
        for x_shape, k, m, (h, w) in (
            ((1, 5, 9, 16), (3, 3), 1, (1, 1)), ((2, 6, 7, 8), (3, 3), 1, (2, 2)), ((1, 7, 11, 33), (3, 2), 1, (1, 1)),
            ((1, 12, 9, 1), (10, 8), 8, (2, 2)), ((1, 5, 4, 3), (3, 3), 4, (1, 2)), ((1, 9, 3, 5), (7, 1), 1, (1, 1)),
        ):  # fmt: skip
            yield _case(rng, x_shape, k, m, layer, padding=padding, stride_h=h, stride_w=w)
    yield _case(rng, (1, 11, 12, 6), (3, 3), 1, layer, dilation_h_factor=3, dilation_w_factor=2)
    yield _case(rng, (1, 2, 2, 20), (5, 5), 1, layer)  # a window larger than the image
    yield _case(rng, (1, 1, 1, 1), (1, 1), 1, layer)
    yield _case(rng, (1, 4, 4, 3), (2, 2), 1, Layer(kind, bias=False))
    yield _case(rng, (1, 4, 5, 41), (3, 2), 1, layer, dilation_w_factor=2)  # gathered in two parts
    for act in ("RELU", "RELU6", "RELU_N1_TO_1"):
        yield _case(rng, (1, 4, 6, 17), (3, 3), 1, layer, fused_activation_function=act)


def _wide_cases(rng: np.random.Generator) -> Iterator[Case]:
    """int16 activations, and weights of 4 and 2 bits."""
    wide = Layer("INT16", bound=1 << 24)
    for padding in ("SAME", "VALID"):
        yield _case(rng, (2, 5, 9, 17), (3, 3), 1, wide, padding=padding, stride_h=2)
        yield _case(rng, (1, 8, 7, 3), (3, 2), 4, wide, padding=padding, dilation_w_factor=2)
    yield _case(rng, (1, 12, 9, 1), (10, 8), 8, Layer("INT16", bias=False), fused_activation_function="RELU")
    yield _case(rng, (1, 6, 5, 9), (3, 3), 1, wide, fused_activation_function="RELU6")
    for x_shape, m in (((1, 5, 9, 16), 1), ((1, 6, 5, 3), 2), ((1, 6, 5, 1), 5)):
        yield _case(rng, x_shape, (3, 3), m, Layer("INT4"))
        why = "neither TFLM nor LiteRT takes INT2 here"
        yield replace(_case(rng, x_shape, (3, 3), m, Layer("INT2")), oracle="none", why=why)


def _end_cases(rng: np.random.Generator) -> Iterator[Case]:
    """Sums that end in halves, or leave int16 before the zero point is added; hybrid ones with a single scale."""
    for k in ((3, 3), (3, 2)):
        for kind in ("INT8", "INT16"):
            yield _case(rng, (1, 5, 6, 19), k, 1, Layer(kind, bound=9, halves=True))
        for out_zero in (-100, 100):
            yield _case(rng, (1, 5, 6, 19), k, 1, Layer(bound=1 << 20, out_scale=0.001, out_zero=out_zero))
        yield _case(rng, (2, 5, 6, 1), k, 1, Layer("HYBRID"))
        yield with_equal_scales(_case(rng, (2, 5, 6, 3), k, 1, Layer("HYBRID")))


def _cases_3x3(rng: np.random.Generator) -> Iterator[Case]:
    """What microcontrollers have kernels for: lines along either axis, odd and even numbers of outputs, all borders."""
    for padding in ("SAME", "VALID"):
        for x_shape, (h, w) in (
            ((1, 9, 4, 3), (1, 1)),  # lines along the columns of the image, if padded
            ((2, 3, 3, 5), (1, 1)),
            ((1, 4, 8, 3), (2, 1)),
            ((1, 8, 5, 2), (1, 2)),
            ((1, 3, 4, 2), (2, 2)),
            ((1, 11, 3, 2), (1, 3)),
            ((1, 257, 3, 2), (1, 1)),  # longer than a line may be
        ):
            layer = Layer(zero=int(rng.integers(-128, 128)), out_zero=int(rng.integers(-128, 128)))
            yield _case(rng, x_shape, (3, 3), 1, layer, padding=padding, stride_h=h, stride_w=w)
        for x_shape, h, w, m in (((1, 7, 6, 1), 2, 2, 8), ((1, 6, 9, 2), 1, 2, 3), ((2, 8, 5, 3), 2, 1, 2)):
            yield _case(rng, x_shape, (3, 3), m, padding=padding, stride_h=h, stride_w=w)
    for bound in (1 << 29, (1 << 31) - 1):  # sums below 2^30, and sums that wrap
        yield _case(rng, (1, 5, 6, 4), (3, 3), 1, Layer(bound=bound, out_scale=3e4))
    yield _dead(_case(rng, (1, 5, 6, 4), (3, 3), 1, Layer(zero=-128)), channel=2)
    for value in (-128, 127):
        case = _case(rng, (1, 4, 5, 3), (3, 3), 1, Layer(zero=-128, out_zero=127))
        yield replace(case, inputs=(np.full(case.node.input(0).shape, value, np.int8),))


def _dead(case: Case, channel: int) -> Case:
    """The case with weights of 0 and a huge bias in a channel, as training may leave them."""
    x, w, b = case.node.input(0), case.node.input(1), case.node.input(2)
    weights, bias = np.array(w.data), np.array(b.data)
    weights[..., channel], bias[channel] = 0, 1 << 30
    return replace(case, node=replace(case.node, inputs=(x, replace(w, data=weights), replace(b, data=bias))))


OP = Op("DEPTHWISE_CONV_2D", infer, reference, lower, cases, beyond=beyond, uint8="layer", packed_weights=True)
