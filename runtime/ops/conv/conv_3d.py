"""CONV_3D, NDHWC with weights [k_d, k_h, k_w, in_c, out_c], and CONV_3D_TRANSPOSE with weights [k_d, k_h, k_w, out_c,
in_c], whose input 0 is the output's shape. In float32, as LiteRT has them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor
from twinfer.runtime.ops.core.activation import output_range
from twinfer.runtime.ops.core.channels import bias_of
from twinfer.runtime.ops.core.window import Window, window
from twinfer.runtime.ops.move._move import index, indices
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

_LARGE = 1 << 30  # the sum of two sizes must fit int32


class Volume(NamedTuple):
    """Geometry of windows over volumes: ``tw_volume`` (kernels_c/conv/conv_3d.h); depth, height and width each."""

    size: Shape
    out: Shape
    kernel: Shape
    strides: Shape
    dilations: Shape
    pads: Shape

    def params(self, batches: int, in_c: int, out_c: int) -> dict[str, Param]:
        planes = [axis[1:] for axis in self]
        (in_h, in_w), (out_h, out_w), (k_h, k_w), strides, dilations, pads = planes
        image = Window(batches, in_h, in_w, in_c, out_h, out_w, out_c, k_h, k_w, *strides, *dilations, *pads)
        names = ("in_d", "out_d", "k_d", "stride_d", "dilation_d", "pad_d")
        return {"window": image.params, **{name: axis[0] for name, axis in zip(names, self, strict=True)}}


def _volume(node: Node, size: Shape, kernel: Shape) -> Volume:
    strides = tuple(int(node.options[f"stride_{side}"]) for side in "dhw")
    dilations = tuple(int(node.options.get(f"dilation_{side}_factor", 1)) for side in "dhw")
    ends = [
        window(node, n, k, s, d, node.options["padding"])
        for n, k, s, d in zip(size, kernel, strides, dilations, strict=True)
    ]
    return Volume(size, tuple(e[0] for e in ends), kernel, strides, dilations, tuple(e[1] for e in ends))


def _check(node: Node, x: Tensor, w: Tensor, bias: Tensor | None, channels: int) -> None:
    need(len(x.shape) == 5 and x.size > 0, node, f"{x} must have 5 dimensions (NDHWC)")
    need(len(w.shape) == 5 and w.size > 0, node, f"{w} must have 5 dimensions [depth, height, width, ...]")
    for each in (x, w, node.output, *([bias] if bias else [])):
        need_type(node, each, "FLOAT32")
    need(bias is None or bias.size == w.shape[channels], node, f"{bias} must have {w.shape[channels]} elements")
    output_range(node)


def infer(node: Node) -> list[Shape]:
    need(len(node.inputs) in (2, 3), node, f"it has {len(node.inputs)} inputs, not 2 or 3")
    x, w = node.input(0), node.input(1)
    _check(node, x, w, node.optional(2), 4)
    need(x.shape[4] == w.shape[3], node, f"{x} has {x.shape[4]} channels, {w} is for {w.shape[3]}")
    return [(x.shape[0], *_volume(node, x.shape[1:4], w.shape[:3]).out, w.shape[4])]


def _out_shape(node: Node) -> Shape:
    """The output's shape: the constant input, or what the model says if that is computed at run time."""
    given = node.input(0)
    need_type(node, given, "INT32")
    need(given.shape == (5,), node, f"{given} must be a shape of 5 dimensions")
    shape = node.output.shape if given.data is None else tuple(indices(node, 0, 5))
    need(len(shape) == 5 and 1 <= min(shape) <= max(shape) < _LARGE, node, f"{list(shape)} is not a valid output shape")
    return shape


def _infer_transpose(node: Node) -> list[Shape]:
    need(len(node.inputs) in (3, 4), node, f"it has {len(node.inputs)} inputs, not 3 or 4")
    w, x, shape = node.input(1), node.input(2), _out_shape(node)
    _check(node, x, w, node.optional(3), 3)
    back = _volume(node, shape[1:4], w.shape[:3]).out
    fits = x.shape[4] == w.shape[4] and shape[0] == x.shape[0] and shape[4] == w.shape[3] and back == x.shape[1:4]
    need(fits, node, f"{x}, {w} and the output's shape {list(shape)} do not match")
    return [shape]


def _ends(node: Node, sums: Array, bias: Array | None) -> list[Array]:
    low, high = (np.float32(limit) for limit in output_range(node).values())
    return [(sums if bias is None else sums + bias.reshape(-1)).clip(low, high)]


def _taps(v: Volume, size: Shape, out: Shape) -> Iterator[tuple[Shape, tuple[Any, ...], tuple[Any, ...]]]:
    """Every tap with the elements of the input, of this size, that it sees, and the outputs that see them."""
    for tap in product(*map(range, v.kernel)):
        seen, seeing = [], []
        for k, n, m, stride, dilation, pad in zip(tap, size, out, v.strides, v.dilations, v.pads, strict=True):
            at = np.arange(m) * stride - pad + k * dilation
            inside = (at >= 0) & (at < n)
            seen.append(at[inside])
            seeing.append(np.arange(m)[inside])
        yield tap, (slice(None), *np.ix_(*seen)), (slice(None), *np.ix_(*seeing))


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Source: LiteRT reference_ops::Conv3D: sums in order of depth, row, column and channel."""
    x, w, *bias = inputs
    acc = np.zeros(node.output.shape, np.float32)
    v = _volume(node, x.shape[1:4], w.shape[:3])
    for tap, seen, seeing in _taps(v, v.size, v.out):
        for c in range(x.shape[4]):
            acc[seeing] += x[seen][..., c, None] * w[tap][c]
    return _ends(node, acc, bias[0] if bias else None)


def _reference_transpose(node: Node, inputs: list[Any]) -> list[Array]:
    """Source: LiteRT reference_ops::Conv3DTranspose: sums in order of the inputs and their channels."""
    _, w, x, *bias = inputs
    shape = node.output.shape
    acc = np.zeros(shape, np.float32)
    v = _volume(node, shape[1:4], w.shape[:3])
    for tap, reached, seeing in reversed(list(_taps(v, shape[1:4], x.shape[1:4]))):
        for c in range(x.shape[4]):
            acc[reached] += x[seeing][..., c, None] * w[tap][:, c]
    return _ends(node, acc, bias[0] if bias else None)


def lower(node: Node, target: Target) -> Call:
    x, w = node.input(0), node.input(1)
    v = _volume(node, x.shape[1:4], w.shape[:3])
    params: dict[str, Param] = {"volume": v.params(x.shape[0], *w.shape[3:]), "limits": output_range(node)}
    inputs = (x, w, bias_of(node, w.shape[4]))
    return Call("tw_conv_3d_f32", params, inputs, (node.output,), macs=x.shape[0] * math.prod(v.out) * w.size)


def _lower_transpose(node: Node, target: Target) -> Call:
    w, x = node.input(1), node.input(2)
    v = _volume(node, node.output.shape[1:4], w.shape[:3])
    v = v._replace(size=v.out, out=v.size)
    params: dict[str, Param] = {"volume": v.params(x.shape[0], *w.shape[:2:-1]), "limits": output_range(node)}
    inputs = (x, w, bias_of(replace(node, inputs=(x, w, *node.inputs[3:4])), w.shape[3]))
    macs = math.prod(x.shape[:4]) * w.size
    return Call("tw_conv_3d_transpose_f32", params, inputs, (node.output,), macs=macs)


def _options(strides: Shape, dilations: Shape, padding: str, activation: str) -> dict[str, Any]:
    sides = list(zip("dhw", strides, dilations, strict=True))
    steps = {f"stride_{side}": stride for side, stride, _ in sides}
    holes = {f"dilation_{side}_factor": dilation for side, _, dilation in sides}
    return {"padding": padding, "fused_activation_function": activation, **steps, **holes}


#: Input, weights, strides, dilations, activation.
_FORMS: tuple[tuple[Shape, Shape, Shape, Shape, str], ...] = (
    ((1, 1, 1, 1, 1), (1, 1, 1, 1, 1), (1, 1, 1), (1, 1, 1), "NONE"),
    ((2, 4, 5, 6, 3), (2, 3, 2, 3, 5), (1, 1, 1), (1, 1, 1), "RELU"),
    ((1, 5, 4, 7, 2), (3, 2, 3, 2, 4), (2, 1, 3), (1, 1, 1), "NONE"),
    ((1, 6, 7, 5, 1), (2, 3, 2, 1, 17), (1, 1, 1), (3, 2, 1), "RELU6"),
    ((2, 3, 3, 3, 9), (3, 1, 1, 9, 1), (1, 2, 2), (1, 1, 1), "RELU_N1_TO_1"),
)


def _random(rng: np.random.Generator, name: str, *shape: int) -> Tensor:
    return tensor(shape, data=rng.standard_normal(shape), name=name)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for i, (x, w, strides, dilations, activation) in enumerate(_FORMS):
        for padding in ("SAME", "VALID"):
            inputs = (tensor(x), _random(rng, "w", *w), *([_random(rng, "b", w[4])] if i != 2 else []))
            options = _options(strides, dilations, padding, activation)
            shape = infer(Node("CONV_3D", inputs, (tensor(()),), options))[0]
            yield Case(Node("CONV_3D", inputs, (tensor(shape, name="y"),), options), oracle="litert")
    x5, w5 = tensor((1, 3, 4, 4, 2)), tensor((2, 2, 2, 2, 3), name="w")
    options = _options((1, 1, 1), (1, 1, 1), "SAME", "NONE")
    node = Node("CONV_3D", (x5, w5), (tensor((1, 3, 4, 4, 3), name="y"),), options)
    yield Case(node, oracle="litert")  # weights that are computed at run time


def _cases_transpose(rng: np.random.Generator) -> Iterator[Case]:
    for i, (y, w, strides, dilations, activation) in enumerate(_FORMS):
        for padding in ("SAME", "VALID"):
            options = _options(strides, dilations, padding, activation)
            out = _volume(Node("CONV_3D_TRANSPOSE", (), (), options), y[1:4], w[:3]).out
            bias = [_random(rng, "b", w[3])] if i != 2 else []
            inputs = (index(y), _random(rng, "w", *w), tensor((y[0], *out, w[4])), *bias)
            yield Case(Node("CONV_3D_TRANSPOSE", inputs, (tensor(y, name="y"),), options), oracle="litert")


OPS = (
    Op("CONV_3D", infer, reference, lower, cases),
    Op("CONV_3D_TRANSPOSE", _infer_transpose, _reference_transpose, _lower_transpose, _cases_transpose),
)
