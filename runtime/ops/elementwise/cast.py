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
    "FLOAT32": 0x24, "BOOL": 0x31, "FLOAT16": 0x22, "FLOAT64": 0x28,
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
        with np.errstate(over="ignore"):
            return [np.asarray((x.astype(np.float32) if node.output.type == "FLOAT16" else x).astype(to))]
    info = np.iinfo(to)
    inside = np.where(np.isnan(x), 0, np.clip(x.astype(np.float64), float(info.min), float(info.max)))
    whole = np.asarray([min(int(v), info.max) for v in inside.ravel()], to)
    return [whole.reshape(x.shape)]


def lower(node: Node, target: Target) -> Call:
    x, y = node.input(0), node.output
    if x.type == y.type:
        return copy_call(node)
    return Call("tw_cast", {"size": y.size, "from": CODES[x.type], "to": CODES[y.type]}, (x,), (y,))


#: The types of the first cases; others follow behind them.
_FIRST = tuple(CODES)[:9]
_IN_TFLM = ("INT8", "INT16", "INT32", "UINT32", "FLOAT32", "BOOL")


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for x in _FIRST:
        for y in _FIRST:
            yield _case(x, y, rng)
    for x, y in (("INT32", "INT8"), ("INT64", "INT32"), ("INT64", "FLOAT32"), ("UINT32", "FLOAT32")):
        yield Case(Node("CAST", (tensor((3, 7), x),), (tensor((3, 7), y, name="y"),)), oracle="litert")
    odd = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 0.99, -0.99, -0.0], np.float32)
    for y in _FIRST:
        yield _odd_case(odd, y)
    for x in CODES:
        for y in CODES:
            if not {x, y} <= set(_FIRST):
                yield _case(x, y, rng)
    yield from _half_cases(odd)


def _half_cases(odd: Array) -> Iterator[Case]:
    """Floats around halves of a step of float16 and the ends of its range, every float16, and int64 of many bits."""
    yield _odd_case(odd.astype(np.float64), "INT64")
    yield _odd_case(np.array([np.nan, np.inf, -np.inf, 6e4, -6e4, 0.99, -0.99], np.float16), "INT16")
    at = np.arange(0x7C00, dtype=np.uint16)[::7].view(np.float16).astype(np.float32)
    middle = (at[:-1] + at[1:]) / 2
    near = [np.nextafter(middle, np.float32(end)) for end in (-np.inf, np.inf)]
    ends = np.array([65504, 65519.99, 65520, 65536, 1e30, 2.0**-25, 1e-30, 0.0, np.inf], np.float32)
    floats = np.concatenate([at, middle, *near, ends, -middle, -ends])
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = halves[~np.isnan(halves)]
    wide = np.array([2**53 + 1, 2**24 + 1, -(2**62) - 1, 2**63 - 1, 65519, 65520, 2049], np.int64)
    for values, x, types in (
        (floats, "FLOAT32", ("FLOAT16", "FLOAT64")),
        (floats.astype(np.float64) * (1 + 2.0**-40), "FLOAT64", ("FLOAT16", "FLOAT32")),
        (halves, "FLOAT16", ("FLOAT32", "FLOAT64")),
        (wide, "INT64", ("FLOAT16", "FLOAT32", "FLOAT64")),
    ):
        for y in types:
            node = Node("CAST", (tensor(values.shape, x),), (tensor(values.shape, y, name="y"),))
            yield Case(node, (values,), "litert")


def _case(x: str, y: str, rng: np.random.Generator) -> Case:
    """Values that both types have, but for fractions."""
    values = rng.integers(0, 100, (3, 7)) if x[0] == "U" or y[0] == "U" else rng.integers(-100, 100, (3, 7))
    fed = (values % 2 if x == "BOOL" else values).astype(DTYPES[x])
    if fed.dtype.kind == "f":
        fed = fed + (0.7 * np.sign(fed)).astype(fed.dtype)
    node = Node("CAST", (tensor((3, 7), x),), (tensor((3, 7), y, name="y"),))
    return Case(node, (fed,), "tflm" if x in _IN_TFLM and y in _IN_TFLM else "litert")


def _odd_case(odd: Array, y: str) -> Case:
    x = {dtype: type for type, dtype in DTYPES.items()}[odd.dtype]
    node = Node("CAST", (tensor(odd.shape, x),), (tensor(odd.shape, y, name="y"),))
    return Case(node, (odd,), "none", "a float outside of the range: not defined in C++")


OP = Op("CAST", infer, reference, lower, cases)
