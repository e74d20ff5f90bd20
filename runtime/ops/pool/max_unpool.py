"""MaxUnpooling2D: puts values where they were before a maximum was taken of their windows, with zeros around them.

There are two operators of this name. MediaPipe's takes numbers in windows, as floats of ``max_pool_argmax``; its output
has as many windows as its input has pixels. LiteRT's takes places in the output's images, as int32. Sources:
MediaPipe's util/tflite/operations/max_unpooling.cc; LiteRT's kernels/perception/max_unpooling_2d.cc, which writes
anywhere at places outside of the image: here these are left out.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor
from twinfer.runtime.ops.core.mediapipe import struct_options
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.ops.move._move import check_arity
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

NAMES = ("CUSTOM:MaxUnpooling2D", "CUSTOM:LiteRtMaxUnpooling2D")

_LARGE = 1 << 30


def by_places(node: Node) -> bool:
    return node.input(1).type == "INT32"


def geometry(node: Node) -> Window:
    """The window from output to input."""
    o, (batches, h, w, channels) = struct_options(node, pools=True), node.input(0).shape
    sizes = [int(o[f"filter_{side}"]) for side in ("height", "width")]
    strides = [int(o[f"stride_{side}"]) for side in "hw"]
    out, pads = [], []
    for extent, size, stride in zip((h, w), sizes, strides, strict=True):
        same = extent * stride if o["padding"] == "SAME" else (extent - 1) * stride + size
        out.append(same if by_places(node) else extent * size)
        pads.append(max(0, (extent - 1) * stride + size - out[-1]) // 2)
    fits = max(*out, *sizes, *strides) < _LARGE and math.prod((batches, *out, channels)) < _LARGE
    need(fits, node, f"its output is too large, {out[0]} x {out[1]} pixels")
    (k_h, k_w), (stride_h, stride_w), (pad_h, pad_w) = sizes, strides, pads
    image = (batches, out[0], out[1], channels)
    return Window(*image, h, w, channels, k_h, k_w, stride_h, stride_w, 1, 1, pad_h, pad_w)


def infer(node: Node) -> list[Shape]:
    check_arity(node, 2)
    x, numbers = node.input(0), node.input(1)
    for t in (x, node.output):
        need_type(node, t, "FLOAT32")
    need_type(node, numbers, "FLOAT32", "INT32")
    need(len(x.shape) == 4 and x.size > 0, node, f"{x} must have 4 dimensions (NHWC)")
    need(numbers.shape == x.shape, node, f"{numbers} must have the shape of {x}")
    g = geometry(node)
    return [(g.batches, g.in_h, g.in_w, g.in_c)]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    (x, numbers), g = inputs, geometry(node)
    y = np.zeros((g.batches, g.in_h, g.in_w, g.in_c), np.float32)
    images = y.reshape(g.batches, -1)
    for at, value in np.ndenumerate(x):
        number = numbers[at]
        if by_places(node):
            if 0 <= number < g.image:
                images[at[0], number] = value
        elif -1 < number < g.k_h * g.k_w:
            row, column = divmod(int(number), g.k_w)
            row, column = row + at[1] * g.stride_h - g.pad_h, column + at[2] * g.stride_w - g.pad_w
            if 0 <= row < g.in_h and 0 <= column < g.in_w:
                y[at[0], row, column, at[3]] = value
    return [y]


def lower(node: Node, target: Target) -> Call:
    x, g = node.input(0), geometry(node)
    if by_places(node):
        params = {"batches": g.batches, "in_image": math.prod(x.shape[1:]), "out_image": g.image}
        return Call("tw_max_unpool_places_f32", params, (x, node.input(1)), (node.output,))
    return Call("tw_max_unpool_f32", {"window": g.params}, (x, node.input(1)), (node.output,))


def _case(rng: np.random.Generator, name: str, x: Shape, size: tuple[int, int], strides: tuple[int, int]) -> Case:
    given = tensor(x, name="x")
    places = name == NAMES[1]
    numbers = tensor(x, "INT32" if places else "FLOAT32", name="numbers")
    options = struct.pack("<6i", 1 + int(strides[0] % 2), *reversed(strides), *reversed(size), 0)
    node = Node(name, (given, numbers), (given,), extra={"custom_options": options})
    (shape,) = infer(node)
    node = replace(node, outputs=(tensor(shape, name="y"),))
    most = math.prod(shape[1:]) if places else math.prod(size)
    at = rng.integers(-1, most + 1, x)  # some of them lie outside
    values = at.astype(np.int32) if places else at.astype(np.float32) + np.float32(0.1)
    why = "LiteRT's Python package does not have it"
    return Case(node, (rng.normal(size=x).astype(np.float32), values), "none", why)


def _cases(rng: np.random.Generator, name: str) -> Iterator[Case]:
    forms: tuple[tuple[Shape, tuple[int, int], tuple[int, int]], ...] = (
        ((1, 2, 3, 3), (2, 2), (2, 2)), ((2, 3, 2, 2), (3, 2), (2, 1)), ((1, 2, 2, 1), (1, 4), (3, 2)),
        ((1, 1, 1, 1), (1, 1), (1, 1)), ((1, 3, 2, 5), (2, 3), (3, 4)),
    )  # fmt: skip
    for form in forms:
        yield _case(rng, name, *form)


def _op(name: str) -> Op:
    return Op(name, infer, reference, lower, lambda rng: _cases(rng, name))


OPS = (_op(NAMES[0]), _op(NAMES[1]))
