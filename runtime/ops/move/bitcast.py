"""BITCAST: the same bits, read as another type; no work if planned in place. Source: LiteRT kernels/bitcast.cc."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import DTYPES, Array, Node
from twinfer.runtime.op import Case, Op, Shape, need_type, tensor, unsupported
from twinfer.runtime.ops.move._move import check_arity, copy_call
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

TYPES = tuple(type for type in DTYPES if type not in ("COMPLEX64", "COMPLEX128"))


def infer(node: Node) -> list[Shape]:
    check_arity(node, 1)
    x, y = node.input(0), node.output
    need_type(node, x, *TYPES)
    need_type(node, y, *TYPES)
    if x.dtype.itemsize != y.dtype.itemsize:  # on a big-endian machine the parts would lie the other way round
        raise unsupported(node, f"{x} and {y} have elements of different sizes: take types of one size, or CAST")
    return [x.shape]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    return [np.ascontiguousarray(inputs[0]).view(node.output.dtype).reshape(node.output.shape)]


def lower(node: Node, target: Target) -> Call:
    return copy_call(node)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    forms = (
        ("FLOAT32", (2, 3), "INT32"), ("INT32", (5,), "FLOAT32"), ("INT8", (), "UINT8"), ("UINT16", (3,), "INT16"),
        ("INT64", (2, 3), "FLOAT64"), ("BOOL", (4,), "INT8"), ("INT32", (1, 300), "UINT32"),
    )  # fmt: skip
    for given, shape, type in forms:
        x = tensor(shape, given)
        values = rng.integers(0, 2 if given == "BOOL" else 100, shape).astype(x.dtype)
        yield Case(Node("BITCAST", (x,), (tensor(shape, type, name="y"),)), (values,), "litert")


OP = Op("BITCAST", infer, reference, lower, cases)
