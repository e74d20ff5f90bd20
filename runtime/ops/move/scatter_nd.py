"""SCATTER_ND: slices added to zeros, at places picked by numbers. Source of the rules: LiteRT scatter_nd.cc."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.ops.core.loops import LOOPS
from twinfer.runtime.ops.move._move import check_arity, index, indices, same_meaning
from twinfer.runtime.ops.move.gather_nd import check_inside, depth_of
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

#: What tw_scatter_nd calls a type: the bytes of an integer, 0 for floats, -1 for truth values.
KINDS = {"FLOAT32": 0, "INT8": 1, "UINT8": 1, "INT16": 2, "INT32": 4, "INT64": 8, "BOOL": -1}


def infer(node: Node) -> list[Shape]:
    check_arity(node, 3)
    at, updates = node.input(0), node.input(1)
    need_type(node, at, "INT32")
    need_type(node, updates, *KINDS)
    need(node.output.type == updates.type, node, f"{node.output} must have the type of {updates}")
    quant = node.output.quant  # sums of stored values must be sums of values
    if not same_meaning(updates, node.output) or (quant and (quant.per_channel or node.output.zero)):
        raise unsupported(node, f"{updates} and {node.output} must be quantised alike, with a zero point of 0")
    shape = tuple(indices(node, 2))
    need(all(n >= 0 for n in shape), node, f"{list(shape)} is not a valid shape")
    depth = depth_of(node, at, shape)
    wanted = (*at.shape[:-1], *shape[depth:])
    need(updates.shape == wanted, node, f"{updates} must be {list(wanted)}")
    check_inside(node, at, shape)
    return [shape]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Slices outside are left out; LiteRT refuses them at run time."""
    at, updates = inputs[0], inputs[1]
    shape, depth = node.output.shape, at.shape[-1]
    y = np.zeros((math.prod(shape[:depth]), math.prod(shape[depth:])), updates.dtype)
    rows = updates.reshape(-1, y.shape[1])
    for numbers, row in zip(at.reshape(-1, depth).tolist(), rows, strict=True):
        if all(0 <= i < n for i, n in zip(numbers, shape, strict=False)):
            slice = int(np.ravel_multi_index(numbers, shape[:depth]))
            y[slice] += row
    return [y.reshape(shape)]


def lower(node: Node, target: Target) -> Call:
    at, updates, y = node.input(0), node.input(1), node.output
    depth = at.shape[-1]
    params: dict[str, Param] = {
        "count": math.prod(at.shape[:-1]), "depth": depth, "run": math.prod(y.shape[depth:]), "size": y.nbytes,
        "kind": KINDS[y.type], "n": (*y.shape[:depth], *[1] * (LOOPS - depth)),
    }  # fmt: skip
    return Call("tw_scatter_nd", params, (at, updates), (y,))


def _case(rng: np.random.Generator, type: str, shape: Shape, at: Shape, fed: bool = False) -> Case:
    depth = at[-1]
    updates = tensor((*at[:-1], *shape[depth:]), type, 0.5 if type == "INT8" else None, name="updates")
    numbers = np.stack([rng.integers(0, n, at[:-1]) for n in shape[:depth]], -1).astype(np.int32)
    given = tensor(at, "INT32", name="at") if fed else index(numbers.ravel().tolist(), shape=at)
    y = Tensor("y", type, shape, updates.quant)
    values = rng.integers(0 if updates.dtype.kind in "ub" else -100, 100, updates.shape).astype(updates.dtype)
    return Case(Node("SCATTER_ND", (given, updates, index(shape)), (y,)), (*[numbers] * fed, values), "litert")


def cases(rng: np.random.Generator) -> Iterator[Case]:
    forms: tuple[tuple[Shape, Shape], ...] = (
        ((8,), (4, 1)), ((2, 4), (1, 1)), ((4, 3, 5), (6, 2)), ((4, 3, 5), (2, 3, 2)), ((2, 3, 2, 3, 2), (9, 5)),
        ((5,), (20, 1)),
    )  # fmt: skip
    for shape, at in forms:
        for type in ("FLOAT32", "INT8"):
            yield _case(rng, type, shape, at)
            yield _case(rng, type, shape, at, fed=True)
    for type in ("UINT8", "INT32", "INT64", "BOOL"):
        yield _case(rng, type, (4, 3), (9, 1))
    short = _case(rng, "INT16", (4, 3), (9, 1))
    yield Case(short.node, short.inputs, "none", "LiteRT takes no int16")
    outside = _case(rng, "INT32", (3, 4), (9, 2), fed=True)
    ends = np.array([(0, 4), (1, 4), (0, -1), (1, -1), (3, 0), (-1, 2), (2, 3), (0, 0), (4, 5)], np.int32)
    near = (ends, np.arange(1, 10, dtype=np.int32))
    for values in (near, None):
        yield Case(outside.node, values, "none", "LiteRT refuses numbers outside when running")


OP = Op("SCATTER_ND", infer, reference, lower, cases)
