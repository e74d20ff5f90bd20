"""SPLIT, SPLIT_V and UNPACK: a tensor taken apart along an axis.

Source of the rules: LiteRT kernels/split.cc, split_v.cc, unpack.cc.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Case, Op, Shape, need
from twinfer.runtime.ops.move._move import axis_in, case, check_arity, check_moved, example, index, indices, run_params
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

#: Position of the data among the inputs, and of the axis (UNPACK: an option).
DATA = {"SPLIT": 1, "SPLIT_V": 0, "UNPACK": 0}
AXIS = {"SPLIT": 0, "SPLIT_V": 2}


def _data(node: Node) -> Tensor:
    return node.input(DATA[node.op])


def _axis(node: Node) -> int:
    at = AXIS.get(node.op)
    given = int(node.options.get("axis", 0)) if at is None else indices(node, at, 1)[0]
    return axis_in(node, given, len(_data(node).shape))


def _check(node: Node, inputs: int, option: str) -> None:
    check_arity(node, inputs, None)
    check_moved(node, _data(node))
    count = int(node.options.get(option, len(node.outputs)))
    need(0 < count == len(node.outputs), node, f"{option} is {count}, there are {len(node.outputs)} outputs")


def infer_split(node: Node) -> list[Shape]:
    _check(node, 2, "num_splits")
    x, axis, count = _data(node), _axis(node), len(node.outputs)
    need(x.shape[axis] % count == 0, node, f"axis {axis} of {x} cannot be cut into {count} equal parts")
    return [(*x.shape[:axis], x.shape[axis] // count, *x.shape[axis + 1 :])] * count


def infer_split_v(node: Node) -> list[Shape]:
    _check(node, 3, "num_splits")
    x, axis, given = _data(node), _axis(node), indices(node, 1, len(node.outputs))
    rest = x.shape[axis] - sum(n for n in given if n != -1)
    sizes = [rest if n == -1 else n for n in given]
    fits = given.count(-1) <= 1 and min(sizes) >= 0 and sum(sizes) == x.shape[axis]
    need(fits, node, f"sizes {given} do not make up axis {axis} of {x}")
    return [(*x.shape[:axis], n, *x.shape[axis + 1 :]) for n in sizes]


def infer_unpack(node: Node) -> list[Shape]:
    _check(node, 1, "num")
    x, axis = _data(node), _axis(node)
    need(x.shape[axis] == len(node.outputs), node, f"axis {axis} of {x} does not make {len(node.outputs)} outputs")
    return [(*x.shape[:axis], *x.shape[axis + 1 :])] * len(node.outputs)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    axis = _axis(node)
    if node.op == "UNPACK":
        return [np.array(part) for part in np.moveaxis(inputs[0], axis, 0)]
    ends = np.cumsum([out.shape[axis] for out in node.outputs])[:-1]
    return [np.array(part) for part in np.split(inputs[DATA[node.op]], ends, axis)]


def lower(node: Node, target: Target) -> Call:
    """For each of ``outer`` leading indices, every output takes one run of bytes in turn."""
    x = _data(node)
    outer = math.prod(x.shape[: _axis(node)])
    outputs = tuple(out for out in node.outputs if out.size)
    if len(node.outputs) == 1 or not outputs:
        return Call("tw_copy", {"size": x.nbytes}, (x,), node.outputs, inplace=(0,))
    runs = [out.nbytes // outer for out in outputs]
    params, table = run_params(outer, runs)
    return Call("tw_split_ragged" if table else "tw_split", params, (x, *table), outputs)


def _cut(shape: Shape, axis: int, n: int) -> Shape:
    cut = list(shape)
    cut[axis] = n
    return tuple(cut)


def split_cases(rng: np.random.Generator) -> Iterator[Case]:
    def one(type: str, shape: Shape, axis: int, count: int, oracle: str = "tflm") -> Case:
        outs = [_cut(shape, axis, shape[axis] // count)] * count
        return case("SPLIT", (index((axis,), shape=()), example(type, shape)), outs, oracle, num_splits=count)

    for type in ("INT8", "INT16", "INT32", "FLOAT32"):
        yield one(type, (3, 4), -1, 2)
    for axis in (-4, -3, -2, -1, 0, 1, 2, 3):
        yield one("INT8", (2, 6, 4, 8), axis, 2)
    yield one("INT8", (5, 9), 1, 3)
    yield one("INT8", (5, 9), 1, 9)
    yield one("INT8", (6,), 0, 1)
    yield one("FLOAT32", (4, 2, 3), 0, 4)
    yield one("UINT8", (3, 4), 1, 2, "litert")


def split_v_cases(rng: np.random.Generator) -> Iterator[Case]:
    def one(type: str, shape: Shape, axis: int, given: tuple[int, ...], oracle: str = "tflm") -> Case:
        rest = shape[axis] - sum(n for n in given if n != -1)
        sizes = [rest if n == -1 else n for n in given]
        inputs = (example(type, shape), index(given), index((axis,), shape=()))
        outs = [_cut(shape, axis, n) for n in sizes]
        return case("SPLIT_V", inputs, outs, oracle, num_splits=len(given))

    for type in ("INT8", "INT16", "INT32", "FLOAT32"):
        yield one(type, (3, 7), -1, (4, 2, 1))
        yield one(type, (7, 3), 0, (4, 2, 1))
    yield one("INT8", (2, 6, 3, 2), 1, (1, 5))
    yield one("INT8", (2, 6, 3, 2), -2, (3,))
    for sizes in ((8, 16, 3, 2), (2, 4), (8, 4), (16, 8), (32, 16, 48), (260, 301), (12, 12), (24, 24)):
        yield one("INT8", (3, sum(sizes)), 1, sizes)
    yield one("INT8", (3, 9), 1, (4, -1, 2), "litert")
    yield one("UINT8", (3, 9), 1, (4, 5), "litert")
    yield one("INT64", (3, 9), 1, (4, 5), "litert")


def unpack_cases(rng: np.random.Generator) -> Iterator[Case]:
    def one(type: str, shape: Shape, axis: int, oracle: str = "tflm") -> Case:
        at = axis % len(shape)
        outs = [(*shape[:at], *shape[at + 1 :])] * shape[axis]
        return case("UNPACK", (example(type, shape),), outs, oracle, num=shape[axis], axis=axis)

    for type in ("INT8", "INT16", "INT32", "FLOAT32"):
        yield one(type, (3, 4), 0)
        yield one(type, (3, 4), -1)
    for axis in (-3, -2, -1, 0, 1, 2):
        yield one("INT8", (2, 3, 5), axis)
    yield one("INT32", (5,), 0)
    yield one("INT8", (1, 5), 0)
    yield one("UINT8", (3, 4), 1, "litert")
    yield one("BOOL", (3, 4), 1, "litert")


OPS = (
    Op("SPLIT", infer_split, reference, lower, split_cases, uint8="moves"),
    Op("SPLIT_V", infer_split_v, reference, lower, split_v_cases, uint8="moves"),
    Op("UNPACK", infer_unpack, reference, lower, unpack_cases, uint8="moves"),
)
