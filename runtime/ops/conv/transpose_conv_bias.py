"""Convolution2DTransposeBias of MediaPipe: a float TRANSPOSE_CONV whose output's size follows from its input's.

Source: MediaPipe's util/tflite/operations/transpose_conv_bias.cc.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor
from twinfer.runtime.ops.conv import transpose_conv
from twinfer.runtime.ops.core.mediapipe import struct_options
from twinfer.runtime.ops.move._move import check_arity, index
from twinfer.runtime.program import Call
from twinfer.runtime.read import schema
from twinfer.runtime.target import Target

NAME = "CUSTOM:Convolution2DTransposeBias"

_LARGE = 1 << 30


def as_transpose_conv(node: Node) -> Node:
    """The same as TRANSPOSE_CONV, which pads SAME in the same way for this size of the output."""
    check_arity(node, 3)
    x, w, bias = (node.input(i) for i in range(3))
    for t in (x, w, bias, node.output):
        need_type(node, t, "FLOAT32")
    need(len(x.shape) == len(w.shape) == 4 and len(bias.shape) == 1, node, f"{x}, {w} and {bias} have wrong ranks")
    options = struct_options(node, pools=False)
    sides = [
        _extent(x.shape[i], w.shape[i], options[stride], options["padding"]) if x.shape[i] else 0
        for i, stride in ((1, "stride_h"), (2, "stride_w"))
    ]
    need(max(sides) < _LARGE, node, f"its output is too large, {sides[0]} x {sides[1]} pixels")
    shape = (x.shape[0], *sides, w.shape[0])
    whole = MappingProxyType({**schema.default_options("TRANSPOSE_CONV"), **options})
    return replace(node, op="TRANSPOSE_CONV", inputs=(index(shape), w, x, bias), options=whole, version=3, extra={})


def _extent(size: int, kernel: int, stride: int, padding: str) -> int:
    """The output's height or width."""
    cut = max(0, kernel - (size - 1) % stride - 1) if padding == "SAME" else 0
    return stride * (size - 1) + kernel - cut


def infer(node: Node) -> list[Shape]:
    return transpose_conv.infer(as_transpose_conv(node))


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    conv, (x, w, bias) = as_transpose_conv(node), inputs
    return transpose_conv.reference(conv, [np.asarray(conv.input(0).data), w, x, bias])


def lower(node: Node, target: Target) -> Call:
    return transpose_conv.lower(as_transpose_conv(node), target)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    forms: tuple[tuple[Shape, Shape, int, tuple[int, int]], ...] = (
        ((1, 4, 4, 3), (2, 2, 2, 3), 1, (2, 2)), ((2, 5, 3, 4), (3, 4, 3, 4), 1, (2, 3)),
        ((1, 3, 4, 2), (5, 3, 3, 2), 2, (1, 2)), ((1, 1, 1, 1), (1, 1, 1, 1), 1, (3, 2)),
        ((1, 5, 4, 2), (1, 2, 4, 2), 2, (3, 4)),
    )  # fmt: skip
    for x_shape, w_shape, padding, strides in forms:
        x, bias = tensor(x_shape), tensor(w_shape[:1], data=rng.normal(size=w_shape[0]).astype(np.float32), name="bias")
        w = tensor(w_shape, data=rng.normal(size=w_shape).astype(np.float32), name="weights")
        node = Node(NAME, (x, w, bias), (), extra=_extra(padding, strides))
        node = replace(node, outputs=(tensor(infer(replace(node, outputs=(x,)))[0], name="y"),))
        why = "LiteRT has it in XNNPACK alone, which sums in another order"
        yield Case(node, oracle="none", why=why, tolerance=1e-4)


def _extra(padding: int, strides: tuple[int, int]) -> dict[str, Any]:
    return {"custom_options": struct.pack("<3i", padding, *reversed(strides))}


OP = Op(NAME, infer, reference, lower, cases)
