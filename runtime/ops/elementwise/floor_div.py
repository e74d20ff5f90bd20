"""FLOOR_DIV, FLOOR_MOD and ATAN2 of the stored values, with broadcasting; integers are not rescaled, as in LiteRT."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import SUFFIX, Case, Op, tensor
from twinfer.runtime.ops.core.broadcast import SHAPES, binary_case, broadcast_call, infer_binary
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

TYPES = {
    "FLOOR_DIV": ("FLOAT32", "INT8", "INT16", "INT32"),
    "FLOOR_MOD": ("FLOAT32", "INT8", "INT16", "INT32", "INT64"),
    "ATAN2": ("FLOAT32", "FLOAT64"),
}

BY_ZERO = "by zero: LiteRT refuses to run"


def _floor_div(a: Array, b: Array) -> Array:
    """Source: LiteRT FloorDiv, which divides in float64. Integers by zero saturate."""
    if a.dtype.kind == "f":
        return np.floor(a.astype(np.float64) / b.astype(np.float64))
    info = np.iinfo(a.dtype)
    wide, by = a.astype(np.int64), b.astype(np.int64)
    ends = np.where(wide == 0, 0, np.where(wide > 0, info.max, info.min))
    return np.where(by == 0, ends, wide // np.where(by == 0, 1, by))


def _floor_mod(a: Array, b: Array) -> Array:
    """Source: LiteRT FloorMod. Integers by zero leave 0."""
    if a.dtype.kind == "f":
        rest = np.fmod(a, b)
        return np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
    small = (b == 0) | (b == -1)
    return np.where(small, 0, a % np.where(small, 1, b))


def _atan2(a: Array, b: Array) -> Array:
    return np.asarray(np.arctan2(a.astype(np.float64), b.astype(np.float64)))


_FUNCTIONS = {"FLOOR_DIV": _floor_div, "FLOOR_MOD": _floor_mod, "ATAN2": _atan2}


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    with np.errstate(all="ignore"):
        return [np.asarray(_FUNCTIONS[node.op](*inputs)).astype(node.output.dtype)]


def lower(node: Node, target: Target) -> Call:
    kernel = f"tw_{node.op.lower()}_{SUFFIX[node.output.type]}"
    return broadcast_call(kernel, (node.input(0), node.input(1)), node.output, {}, target, tiles=False)


def _values(rng: np.random.Generator, op: str, type: str, shapes: Any) -> tuple[Array, Array]:
    """Operands; divisors are never 0."""
    kind = tensor((), type).dtype
    if kind.kind == "f":
        a, b = (np.asarray(rng.uniform(-9, 9, shape)).astype(kind) for shape in shapes)
        return a, b
    a, b = (rng.integers(-99, 100, shape) for shape in shapes)
    return np.asarray(a, kind), np.asarray(np.where(b == 0, 7, b), kind)


def _edges(op: str) -> Iterator[Case]:
    """Zeros, signs and ends of types."""
    odd = np.array([0.0, -0.0, 1.0, -1.0, 7.5, -7.5, 1e30, -3.0, 3.0, 1e-30, 0.3], np.float32)
    a, b = np.repeat(odd, odd.size - 2), np.tile(odd[2:], odd.size)
    yield binary_case(op, "FLOAT32", (a.shape, a.shape), values=(a, b), oracle="litert" if op == "ATAN2" else "tflm")
    none = np.array([0.0, -0.0, 3.0, -3.0, np.nan, np.inf, -np.inf, np.inf, 1.0], np.float32)
    by = np.array([0.0, 0.0, 0.0, -0.0, 1.0, np.inf, np.inf, 2.0, -np.inf], np.float32)
    yield binary_case(op, "FLOAT32", (none.shape, by.shape), values=(none, by), oracle="none")
    for type in TYPES[op]:
        dtype = tensor((), type).dtype
        if dtype.kind == "i":
            info = np.iinfo(dtype)
            ends = np.array([info.min, info.max, info.min, info.min + 1, 0, 5, -5, info.min], dtype)
            divisors = np.array([info.max, info.min, 3, -1, 0, 0, 0, -1], dtype)
            yield binary_case(op, type, (ends[:4].shape,) * 2, values=(ends[:4], divisors[:4]), oracle="litert")
            yield binary_case(op, type, (ends.shape,) * 2, values=(ends, divisors), oracle="none")


def cases(op: str, rng: np.random.Generator) -> Iterator[Case]:
    for shapes in SHAPES:
        for type in TYPES[op]:
            case = binary_case(op, type, shapes, values=_values(rng, op, type, shapes), oracle="litert")
            yield _judged(op, case)
    for case in _edges(op):
        yield _judged(op, case)


def _judged(op: str, case: Case) -> Case:
    """The case with the right oracle, and the tolerance of ATAN2: two steps of the last bit of pi."""
    a, b = case.node.input(0), case.node.input(1)
    if op == "ATAN2":
        oracle = "litert" if a.shape == b.shape else "none"
        why = "" if oracle == "litert" else "LiteRT does not broadcast it"
        return Case(case.node, case.inputs, oracle, why, 5e-7 if a.type == "FLOAT32" else 1e-15)
    in_tflm = case.oracle == "litert" and a.type == "FLOAT32" and max(len(a.shape), len(b.shape)) < 5
    why = BY_ZERO if case.oracle == "none" else ""
    return Case(case.node, case.inputs, "tflm" if in_tflm else case.oracle, why)


def _op(name: str) -> Op:
    return Op(name, lambda node: infer_binary(node, *TYPES[name]), reference, lower, lambda rng: cases(name, rng))


OPS = tuple(map(_op, TYPES))
