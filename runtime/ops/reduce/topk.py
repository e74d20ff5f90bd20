"""TOPK_V2: the greatest values of each row and where they are, in falling order. Source: LiteRT kernels/topk_v2.cc."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import SUFFIX, Case, Op, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.ops.move._move import check_arity, example, index, indices, same_meaning
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

TYPES = ("FLOAT32", "INT8", "UINT8", "INT16", "INT32", "INT64")


def _k(node: Node) -> int:
    """How many values of each row: input 1, or the output's last extent where that is computed at run time."""
    k, values = node.input(1), node.output
    need_type(node, k, "INT32", "INT16")
    need(k.size == 1, node, f"{k} must be a single number")
    if k.data is not None:
        return indices(node, 1, 1)[0]
    if not values.shape or any(d < 0 for d in values.shape_signature):
        why = f"{k} is computed at run time and {values} has no fixed shape"
        raise unsupported(node, f"{why}: make it a constant (twinfer convert --constant NAME=VALUE) or fix the shape")
    return values.shape[-1]


def infer(node: Node) -> list[Shape]:
    check_arity(node, 2, 2)
    x, values, numbers = node.input(0), node.outputs[0], node.outputs[1]
    need_type(node, x, *TYPES)
    need(values.type == x.type, node, f"{values} must have the type of {x}")
    need_type(node, numbers, "INT32", "INT16")
    if not same_meaning(x, values):
        raise unsupported(node, f"{x} and {values} must be quantised alike: requantise them")
    need(len(x.shape) >= 1, node, f"{x} must have at least one dimension")
    k, count = _k(node), x.shape[-1]
    need(0 <= k <= count, node, f"the {k} greatest of the {count} values in a row of {x} do not exist")
    need(numbers.type == "INT32" or count <= 1 << 15, node, f"{numbers} cannot count the {count} values of a row")
    return [(*x.shape[:-1], k)] * 2


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Of equal values the first counts; a NaN is less than all numbers."""
    x = inputs[0]
    falling = [
        sorted(range(len(row)), key=lambda i: (row[i] != row[i], -row[i]))
        for row in x.reshape(math.prod(x.shape[:-1]), x.shape[-1]).tolist()
    ]
    numbers = np.array(falling, np.int64).reshape(x.shape)[..., : node.output.shape[-1]]
    return [np.take_along_axis(x, numbers, -1), numbers.astype(node.outputs[1].dtype)]


def lower(node: Node, target: Target) -> Call:
    x, k = node.input(0), node.output.shape[-1]
    narrow = int(node.outputs[1].type == "INT16")
    params = {"rows": math.prod(x.shape[:-1]), "count": x.shape[-1], "k": k, "narrow": narrow}
    return Call(f"tw_topk_{SUFFIX[x.type]}", params, (x,), node.outputs, scratch=4 * k * narrow)


def _case(rng: np.random.Generator, type: str, shape: Shape, k: int, at: str = "INT32", fed: bool = False) -> Case:
    x, out = example(type, shape), (*shape[:-1], k)
    outputs = (Tensor("values", x.type, out, x.quant), tensor(out, at, name="numbers"))
    number = tensor((), at, name="k") if fed else index([k], at, ())
    values = rng.integers(0 if type == "UINT8" else -9, 10, shape).astype(x.dtype)
    fed_k = (np.array(k, number.dtype),) if fed else ()
    return Case(Node("TOPK_V2", (x, number), outputs), (values, *fed_k), "litert")


def cases(rng: np.random.Generator) -> Iterator[Case]:
    forms: tuple[tuple[Shape, int], ...] = (
        ((1,), 1), ((7,), 3), ((7,), 7), ((3, 100), 1), ((3, 100), 10), ((2, 3, 33), 32), ((1, 300), 300),
    )  # fmt: skip
    for shape, k in forms:
        for type in ("FLOAT32", "INT8"):
            yield _case(rng, type, shape, k)
    for type in TYPES:
        yield _case(rng, type, (4, 50), 9)
    yield _case(rng, "FLOAT32", (4, 50), 9, fed=True)
    yield _case(rng, "INT8", (4, 50), 9, "INT16")
    yield _case(rng, "FLOAT32", (2, 20), 0)
    wild = _case(rng, "FLOAT32", (1, 128), 5)
    yield Case(wild.node, None, "litert")


OP = Op("TOPK_V2", infer, reference, lower, cases)
