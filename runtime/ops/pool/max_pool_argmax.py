"""MaxPoolingWithArgmax2D of MediaPipe: MAX_POOL_2D of floats, and which element of each window is the largest.

The numbers are floats: the element's number in the window, row by row, padding included, plus 0.1. Source: MediaPipe's
util/tflite/operations/max_pool_argmax.cc.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need_type, tensor
from twinfer.runtime.ops.core.activation import FLOAT_MAX, float_range, output_range
from twinfer.runtime.ops.core.mediapipe import struct_options
from twinfer.runtime.ops.move._move import check_arity
from twinfer.runtime.ops.pool.pool_2d import geometry
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

NAME = "CUSTOM:MaxPoolingWithArgmax2D"


def as_max_pool(node: Node) -> Node:
    """The same as MAX_POOL_2D, which gives the first output alone."""
    check_arity(node, 1, 2)
    for t in (node.input(0), *node.outputs):
        need_type(node, t, "FLOAT32")
    options = MappingProxyType(struct_options(node, pools=True))
    return replace(node, op="MAX_POOL_2D", outputs=node.outputs[:1], options=options, extra={})


def infer(node: Node) -> list[Shape]:
    return [geometry(as_max_pool(node)).shape] * 2


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    (x,), pool = inputs, as_max_pool(node)
    g, (low, high) = geometry(pool), float_range(pool)
    most = np.full(g.shape, -FLOAT_MAX, np.float32)
    numbers = np.zeros(g.shape, np.int32)
    edges = [(0, 0), (g.pad_h, g.stride_h + g.k_h), (g.pad_w, g.stride_w + g.k_w), (0, 0)]
    padded = np.pad(x, edges, constant_values=-FLOAT_MAX)
    for number, (ky, kx) in enumerate(g.taps()):
        seen = padded[:, ky :: g.stride_h, kx :: g.stride_w][:, : g.out_h, : g.out_w]
        larger = seen > most
        most, numbers = np.where(larger, seen, most), np.where(larger, number, numbers)
    return [np.clip(most, low, high), numbers.astype(np.float32) + np.float32(0.1)]


def lower(node: Node, target: Target) -> Call:
    pool = as_max_pool(node)
    params = {"window": geometry(pool).params, "limits": output_range(pool)}
    return Call("tw_max_pool_argmax_f32", params, (node.input(0),), node.outputs)


def example(x: Shape, size: tuple[int, int], strides: tuple[int, int], padding: int, activation: int = 0) -> Node:
    """A node with these options. ``padding``: 1 SAME, 2 VALID."""
    given = tensor(x, name="x")
    options = struct.pack("<6i", padding, *reversed(strides), *reversed(size), activation)
    node = Node(NAME, (given,), (given, given), extra={"custom_options": options})
    outputs = (tensor(shape, name=name) for shape, name in zip(infer(node), ("y", "numbers"), strict=True))
    return replace(node, outputs=tuple(outputs))


def cases(rng: np.random.Generator) -> Iterator[Case]:
    forms: tuple[tuple[Shape, tuple[int, int], tuple[int, int]], ...] = (
        ((1, 4, 6, 3), (2, 2), (2, 2)), ((2, 7, 5, 3), (3, 2), (2, 1)), ((1, 5, 5, 1), (1, 4), (3, 2)),
        ((1, 1, 1, 2), (1, 1), (1, 1)), ((1, 3, 3, 2), (3, 3), (1, 1)),
    )  # fmt: skip
    why = "LiteRT has it in XNNPACK alone, with other numbers"
    for i, (x, size, strides) in enumerate(forms):
        for padding in (1, 2):
            yield Case(example(x, size, strides, padding, activation=i % 4), oracle="none", why=why)
    equal = example((1, 4, 4, 1), (2, 2), (2, 2), 2)
    yield Case(equal, (np.zeros((1, 4, 4, 1), np.float32),), "none", "of equal values the first counts")


OP = Op(NAME, infer, reference, lower, cases)
