"""CAST between numbers and bool, of the values as stored: quantisation does not count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import DTYPES, Array, Node
from twinfer.runtime.op import Case, Op, Shape, need_type, tensor
from twinfer.runtime.ops.move._move import check_arity, copy_call
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

#: Codes of tw_cast's types: kind * 16 + bytes of an element.
CODES = {
    "INT8": 0x01, "INT16": 0x02, "INT32": 0x04, "INT64": 0x08, "UINT8": 0x11, "UINT16": 0x12, "UINT32": 0x14,
    "FLOAT32": 0x24, "BOOL": 0x31,
}  # fmt: skip


def infer(node: Node) -> list[Shape]:
    check_arity(node, 1)
    need_type(node, node.input(0), *CODES)
    need_type(node, node.output, *CODES)
    return [node.input(0).shape]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Integers wrap; floats are truncated towards zero and clamped to the type, NaN is 0 (LiteRT: not defined)."""
    x, to = inputs[0], DTYPES[node.output.type]
    if x.dtype.kind != "f" or to.kind in "fb":
        return [np.asarray(x.astype(to))]
    info = np.iinfo(to)
    inside = np.where(np.isnan(x), 0, np.clip(x.astype(np.float64), float(info.min), float(info.max)))
    whole = np.asarray([min(int(v), info.max) for v in inside.ravel()], to)
    return [whole.reshape(x.shape)]


def lower(node: Node, target: Target) -> Call:
    x, y = node.input(0), node.output
    if x.type == y.type:
        return copy_call(node)
    return Call("tw_cast", {"size": y.size, "from": CODES[x.type], "to": CODES[y.type]}, (x,), (y,))


_IN_TFLM = ("INT8", "INT16", "INT32", "UINT32", "FLOAT32", "BOOL")


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for x in CODES:
        for y in CODES:
            values = rng.integers(0, 100, (3, 7)) if x[0] == "U" or y[0] == "U" else rng.integers(-100, 100, (3, 7))
            fed = (values % 2 if x == "BOOL" else values).astype(DTYPES[x])
            if x == "FLOAT32":
                fed = fed + np.float32(0.7) * np.sign(fed)
            node = Node("CAST", (tensor((3, 7), x),), (tensor((3, 7), y, name="y"),))
            same_in_tflm = x in _IN_TFLM and y in _IN_TFLM
            yield Case(node, (fed,), "tflm" if same_in_tflm else "litert")
    for x, y in (("INT32", "INT8"), ("INT64", "INT32"), ("INT64", "FLOAT32"), ("UINT32", "FLOAT32")):
        yield Case(Node("CAST", (tensor((3, 7), x),), (tensor((3, 7), y, name="y"),)), oracle="litert")
    odd = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 0.99, -0.99, -0.0], np.float32)
    for y in CODES:
        node = Node("CAST", (tensor(odd.shape),), (tensor(odd.shape, y, name="y"),))
        yield Case(node, (odd,), "none", "a float outside of the range: not defined in C++")


OP = Op("CAST", infer, reference, lower, cases)
