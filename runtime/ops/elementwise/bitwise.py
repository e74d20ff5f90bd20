"""BITWISE_XOR and RIGHT_SHIFT of plain integers, with broadcasting. Source: LiteRT's kernels of these names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape
from twinfer.runtime.ops.core.broadcast import SHAPES, binary_case, broadcast_call, infer_binary
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

#: Type -> what the names of its shifting kernels end with; the bits of a xor do not depend on the sign.
SUFFIXES = {"INT8": "s8", "UINT8": "u8", "INT16": "s16", "UINT16": "u16", "INT32": "s32", "UINT32": "u32"}


def infer(node: Node) -> list[Shape]:
    return infer_binary(node, *SUFFIXES)


def _xor(node: Node, inputs: list[Any]) -> list[Array]:
    return [np.bitwise_xor(*inputs)]


def _shift(node: Node, inputs: list[Any]) -> list[Array]:
    """By no fewer than 0 bits, and by no more than leave the sign, or the highest bit."""
    a, b = inputs
    return [np.right_shift(a, np.clip(b, 0, 8 * a.itemsize - 1).astype(a.dtype))]


def _lower_xor(node: Node, target: Target) -> Call:
    kernel = f"tw_bitwise_xor_{SUFFIXES[node.output.type].replace('u', 's')}"
    return broadcast_call(kernel, (node.input(0), node.input(1)), node.output, {}, target, tiles=False)


def _lower_shift(node: Node, target: Target) -> Call:
    kernel = f"tw_right_shift_{SUFFIXES[node.output.type]}"
    return broadcast_call(kernel, (node.input(0), node.input(1)), node.output, {}, target, tiles=False)


def _xor_cases(rng: np.random.Generator) -> Iterator[Case]:
    for i, (a, b) in enumerate(SHAPES):
        for type in ("INT8", ("UINT8", "INT16", "UINT16", "INT32", "UINT32")[i % 5]):
            yield binary_case("BITWISE_XOR", type, (a, b), oracle="litert")


def _shift_cases(rng: np.random.Generator) -> Iterator[Case]:
    for i, (a, b) in enumerate(SHAPES):
        for type in ("INT8", *[("UINT8", "INT16", "UINT16", "INT32", "UINT32")[(i + k) % 5] for k in (0, 1)]):
            case = binary_case("RIGHT_SHIFT", type, (a, b), oracle="litert")
            x, by = case.node.input(0), case.node.input(1)
            info = np.iinfo(x.dtype)
            values = rng.integers(info.min, info.max, x.shape, x.dtype, endpoint=True)
            shifts = rng.integers(max(-3, info.min), 8 * x.dtype.itemsize + 3, by.shape).astype(x.dtype)
            yield Case(case.node, (values, shifts), "litert")
            yield case


OPS = (
    Op("BITWISE_XOR", infer, _xor, _lower_xor, _xor_cases, pointwise="exact"),
    Op("RIGHT_SHIFT", infer, _shift, _lower_shift, _shift_cases, pointwise="exact"),
)
