"""SEGMENT_SUM: sums of neighbouring slices with one number. Source of the rules: LiteRT kernels/segment_sum.cc."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor
from twinfer.runtime.ops.core.loops import LOOPS
from twinfer.runtime.ops.move._move import check_arity, index
from twinfer.runtime.ops.move.scatter_nd import KINDS
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def _numbers(node: Node) -> list[int]:
    """The segment of every slice: a constant that never falls, as it says how many segments there are."""
    return [int(v) for v in node.constant(1).reshape(-1)]


def infer(node: Node) -> list[Shape]:
    check_arity(node, 2)
    x, at = node.input(0), node.input(1)
    need_type(node, x, "FLOAT32", "INT32")
    need_type(node, at, "INT32")
    need(node.output.type == x.type, node, f"{x} and {node.output} differ in type")
    need(len(x.shape) >= 1 and at.shape == x.shape[:1], node, f"{at} must have a number for every slice of {x}")
    numbers = _numbers(node)
    need(numbers == sorted(numbers) and min(numbers, default=0) >= 0, node, f"{at} must rise from 0 on")
    return [(numbers[-1] + 1 if numbers else 0, *x.shape[1:])]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    y = np.zeros(node.output.shape, inputs[0].dtype)
    for number, row in zip(_numbers(node), inputs[0], strict=True):
        y[number] += row
    return [y]


def lower(node: Node, target: Target) -> Call:
    x, at, y = node.input(0), node.input(1), node.output
    params: dict[str, Param] = {
        "count": at.size, "depth": 1, "run": math.prod(x.shape[1:]), "size": y.nbytes, "kind": KINDS[y.type],
        "n": (max(y.shape[0], 1), *[1] * (LOOPS - 1)),
    }  # fmt: skip
    return Call("tw_scatter_nd", params, (at, x), (y,))


def cases(rng: np.random.Generator) -> Iterator[Case]:
    for numbers in ((0, 0, 1), (0, 2, 2, 5), (0,), (3, 3)):
        for shape in ((), (7,), (2, 3)):
            for type in ("FLOAT32", "INT32"):
                y = tensor((numbers[-1] + 1, *shape), type, name="y")
                inputs = (tensor((len(numbers), *shape), type), index(numbers))
                yield Case(Node("SEGMENT_SUM", inputs, (y,)), None, "none", "LiteRT has no reference kernel of it")


OP = Op("SEGMENT_SUM", infer, reference, lower, cases)
