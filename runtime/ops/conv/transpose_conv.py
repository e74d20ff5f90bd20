"""TRANSPOSE_CONV, NHWC with weights [out_c, k_h, k_w, in_c]; input 0 is the output's shape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.runtime.constant import requantize
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, need_type
from twinfer.runtime.ops.conv import _conv
from twinfer.runtime.ops.core import plain_s16
from twinfer.runtime.ops.core.activation import output_range
from twinfer.runtime.ops.core.channels import bias_of, epilogue, multipliers
from twinfer.runtime.ops.core.hybrid import hybrid_constants, is_hybrid
from twinfer.runtime.ops.core.layer_cases import Layer
from twinfer.runtime.ops.core.unsigned import is_unsigned, less_zero, weight_zero
from twinfer.runtime.ops.core.weights import check_types
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.ops.move._move import index, indices
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target

_LARGE = 1 << 30  # the sum of two sizes must fit int32


def as_conv(node: Node) -> Node:
    """The node with its inputs as CONV_2D has them: x, weights, bias."""
    return replace(node, inputs=(node.input(2), node.input(1), *node.inputs[3:4]))


def _shape(node: Node) -> Shape:
    """The output's shape: the constant input, or what the model says if that is computed at run time."""
    given = node.input(0)
    need_type(node, given, "INT32")
    need(given.shape == (4,), node, f"{given} must be a shape of 4 dimensions")
    return node.output.shape if given.data is None else tuple(indices(node, 0, 4))


def _pad(node: Node, out: int, kernel: int, stride: int) -> int:
    """Padding in front along an axis: that of a convolution from output to input. Source: TFLM transpose_conv.cc."""
    need(stride >= 1 and kernel >= 1, node, f"filter {kernel} and stride {stride} must be at least 1")
    need(max(out, kernel, stride) < _LARGE, node, f"output {out}, filter {kernel} or stride {stride} is too large")
    padding = node.options["padding"]
    need(padding in ("SAME", "VALID"), node, f"padding {padding!r} is neither SAME nor VALID")
    return max(0, (-(-out // stride) - 1) * stride + kernel - out) // 2 if padding == "SAME" else 0


def geometry(node: Node) -> Window:
    """The window of the convolution from output to input."""
    (b, in_h, in_w, in_c), (out_c, k_h, k_w, _) = node.input(2).shape, node.input(1).shape
    _, out_h, out_w, _ = _shape(node)
    stride_h, stride_w = int(node.options["stride_h"]), int(node.options["stride_w"])
    pads = _pad(node, out_h, k_h, stride_h), _pad(node, out_w, k_w, stride_w)
    return Window(b, in_h, in_w, in_c, out_h, out_w, out_c, k_h, k_w, stride_h, stride_w, 1, 1, *pads)


def infer(node: Node) -> list[Shape]:
    need(len(node.inputs) in (3, 4), node, f"it has {len(node.inputs)} inputs, not 3 or 4")
    w, x, shape = node.input(1), node.input(2), _shape(node)
    need(len(w.shape) == 4 and w.size > 0, node, f"{w} must have 4 dimensions [out_c, k_h, k_w, in_c]")
    need(len(x.shape) == 4 and x.size > 0, node, f"{x} must have 4 dimensions (NHWC)")
    need(len(shape) == 4 and min(shape) >= 1, node, f"{list(shape)} is not a valid output shape")
    fits = w.shape[3] == x.shape[3] and shape[::3] == (x.shape[0], w.shape[0])
    need(fits, node, f"{x}, {w} and the output's shape {list(shape)} do not match")
    check_types(as_conv(node), w.shape[0])
    geometry(node)
    return [shape]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Source: TFLM reference TransposeConv: float sums in rising order of input row, column, channel.

    TFLM and LiteRT ignore zero points of int8 weights beside int8; there are such files, and so twinfer does, too.
    """
    _, w, x, *bias = inputs
    w = less_zero(w, _weight_zero(node))
    return _conv.convolve(as_conv(node), [x, w, *bias], lambda images: _sums(images, w, geometry(node)))


def _weight_zero(node: Node) -> int:
    return weight_zero(node.input(1)) if is_unsigned(node) else 0


def _sums(x: Array, w: Array, g: Window) -> Array:
    h, v = g.in_h * g.stride_h + g.k_h, g.in_w * g.stride_w + g.k_w
    room = max(h, g.out_h + g.pad_h), max(v, g.out_w + g.pad_w)
    acc = np.zeros((len(x), *room, g.out_c), x.dtype)
    for iy in range(g.in_h):
        for ix in range(g.in_w):
            y, z = iy * g.stride_h, ix * g.stride_w
            for c in range(g.in_c):
                tap = w[..., c].transpose(1, 2, 0).astype(x.dtype)
                acc[:, y : y + g.k_h, z : z + g.k_w] += x[:, iy, ix, c, None, None, None] * tap
    return acc[:, g.pad_h :, g.pad_w :][:, : g.out_h, : g.out_w]


def lower(node: Node, target: Target) -> Call:
    conv, g = as_conv(node), geometry(node)
    x, w, y = node.input(2), node.input(1), node.output
    macs = g.batches * g.in_h * g.in_w * w.size
    if is_hybrid(conv):
        return _lower_hybrid(node, g, macs)
    bias = bias_of(conv, g.out_c)
    if x.type == "INT16":
        return plain_s16.call("tw_transpose_conv_s16", conv, node.constant(1), {"window": g.params}, macs)
    if x.type == "FLOAT32":
        floats = {"window": g.params, "limits": output_range(node)}
        return Call("tw_transpose_conv_f32", floats, (x, w, bias), (y,), macs=macs)
    params: dict[str, Param] = {"window": g.params, "end": epilogue(node), "in_zero": x.zero}
    inputs = (x, w, bias, *(requantize(values) for values in multipliers(conv, g.out_c)))
    kernel = "tw_transpose_conv_s8"
    if zero := _weight_zero(node):
        kernel, params["w_zero"] = "tw_transpose_conv_zero_s8", zero
    return Call(kernel, params, inputs, (y,), macs=macs, weights=Weights())


def _lower_hybrid(node: Node, g: Window, macs: int) -> Call:
    conv = as_conv(node)
    params: dict[str, Param] = {"window": g.params, "limits": output_range(node)}
    inputs = (conv.input(0), conv.input(1), *hybrid_constants(conv, g.out_c))
    kernel = "tw_transpose_conv_hybrid"
    return Call(kernel, params, inputs, (node.output,), g.image, macs=macs, weights=Weights())


def _case(rng: np.random.Generator, layer: Layer, x: Shape, w: Shape, strides: tuple[int, int], padding: str) -> Case:
    def out(n: int, k: int, stride: int) -> int:
        return n * stride if padding == "SAME" else (n - 1) * stride + max(k, stride)

    shape = (x[0], out(x[1], w[1], strides[0]), out(x[2], w[2], strides[1]), w[0])
    options = {"padding": padding, "stride_h": strides[0], "stride_w": strides[1], "fused_activation_function": "NONE"}
    case = layer.case(rng, "TRANSPOSE_CONV", (x, w), lambda node: shape, options)
    x_, w_, *bias = case.node.inputs
    return replace(case, node=replace(case.node, inputs=(index(shape), w_, x_, *bias)))


def cases(rng: np.random.Generator) -> Iterator[Case]:
    forms: tuple[tuple[Shape, Shape, tuple[int, int], str], ...] = (
        ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1), "SAME"), ((1, 4, 5, 3), (2, 3, 3, 3), (2, 2), "SAME"),
        ((2, 3, 4, 5), (7, 2, 3, 5), (1, 2), "VALID"), ((1, 3, 3, 4), (3, 2, 2, 4), (3, 2), "SAME"),
        ((1, 5, 4, 2), (4, 5, 3, 2), (2, 1), "VALID"), ((2, 2, 3, 17), (1, 4, 4, 17), (2, 2), "SAME"),
        ((1, 3, 2, 3), (2, 1, 1, 3), (2, 3), "VALID"),
    )  # fmt: skip
    for form in forms:
        for layer in (
            Layer(),
            Layer("FLOAT32"),
            Layer(bias=False, zero=-128),
            Layer(per_tensor=True, out_zero=127),
            Layer("INT16", bound=1 << 24),
        ):
            yield _case(rng, layer, *form)
    case = _case(rng, Layer(per_tensor=True), *forms[1])
    yield Case(_with_zero(case.node, 7))
    case = _case(rng, Layer("INT16", bound=1 << 14, bias_type="INT16"), *forms[2])
    yield case
    for form in forms:
        for layer in (Layer("HYBRID"), Layer("HYBRID", per_tensor=True, bias=False)):
            # LiteRT scales every product and sums them in float32, up to 68 of them: a few units in the last place.
            yield replace(_case(rng, layer, *form), tolerance=4e-5)
        narrow = _case(rng, Layer("INT16", bound=1 << 24, bias_type="INT32"), *form)
        options = {**narrow.node.options, "quantized_bias_type": "INT32"}
        yield replace(narrow, node=replace(narrow.node, options=options), oracle="litert")


def _with_zero(node: Node, zero: int) -> Node:
    """The node with another zero point of its weights, which has no effect."""
    shape, w, *rest = node.inputs
    quant = None if w is None or w.quant is None else replace(w.quant, zero_point=w.quant.zero_point + zero)
    return replace(node, inputs=(shape, None if w is None else replace(w, quant=quant), *rest))


OP = Op("TRANSPOSE_CONV", infer, reference, lower, cases, uint8="layer")
