"""DYNAMIC_UPDATE_SLICE: a tensor with a box of it replaced. Source: LiteRT dynamic_update_slice.cc."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from twinfer.runtime.constant import index as constant_index
from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.ops.core.loops import LOOPS, filled
from twinfer.runtime.ops.move._move import check_arity, check_moved, collapse, example, index, same_meaning, steps
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def infer(node: Node) -> list[Shape]:
    check_arity(node, 3)
    x, update, start = node.input(0), node.input(1), node.input(2)
    check_moved(node, x, update)
    need_type(node, start, "INT32", "INT64")
    if not (same_meaning(x, node.output) and same_meaning(update, node.output)):
        raise unsupported(node, f"{x}, {update} and {node.output} must be quantised alike: requantise them")
    need(len(update.shape) == len(x.shape), node, f"{update} must have as many dimensions as {x}")
    need(all(u <= n for u, n in zip(update.shape, x.shape, strict=True)), node, f"{update} is larger than {x}")
    need(start.shape == (len(x.shape),), node, f"{start} must have {len(x.shape)} elements")
    return [x.shape]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """The box is brought inside of the tensor, as in XLA and LiteRT."""
    x, update, start = inputs
    last = np.array(x.shape, np.int64) - np.array(update.shape, np.int64)
    at = np.clip(start.astype(np.int64), 0, last)
    y = x.copy()
    y[tuple(slice(int(i), int(i) + n) for i, n in zip(at, update.shape, strict=True))] = update
    return [y]


def lower(node: Node, target: Target) -> Call:
    x, update, start, y = node.input(0), node.input(1), node.input(2), node.output
    if not update.size or update.shape == x.shape:
        source = update if update.size else x  # the box covers everything, or nothing
        return Call("tw_copy", {"size": y.nbytes}, (source,), (y,), inplace=(0,))
    step = steps(x.shape, x.dtype.itemsize)
    loops, run = collapse(list(zip(update.shape, step, strict=True)), x.dtype.itemsize)
    spare = [n - u for n, u in zip(x.shape, update.shape, strict=True)]
    moved = [k for k, last in enumerate(spare) if last]
    if max(len(loops), len(moved)) > LOOPS:
        raise unsupported(node, f"{update} covers {len(moved)} axes of {x} in part, {LOOPS} are the limit")
    numbers = start if start.data is None else constant_index(start.data.clip(-1, 2**31 - 1).astype(np.int32))
    params: dict[str, Param] = {
        "size": y.nbytes, "run": run, "wide": start.dtype.itemsize if start.data is None else 4,
        "n": filled([n for n, _ in loops], 1), "steps": filled([distance for _, distance in loops], 0),
        "axis": filled(moved, 0), "last": filled([spare[k] for k in moved], 0),
        "strides": filled([step[k] for k in moved], 0),
    }  # fmt: skip
    return Call("tw_dynamic_update_slice", params, (x, update, numbers), (y,), inplace=(0,))


def _case(type: str, shape: Shape, box: Shape, at: Sequence[int], fed: str = "INT32", oracle: str = "tflm") -> Case:
    x = example(type, shape)
    update = Tensor("update", type, box, x.quant)
    start = tensor((len(shape),), fed, name="at") if fed else index(at)
    node = Node("DYNAMIC_UPDATE_SLICE", (x, update, start), (Tensor("y", type, shape, x.quant),))
    rng = np.random.default_rng(len(shape))
    values = tuple(rng.integers(0 if type == "BOOL" else -99, 99, s).astype(x.dtype) for s in (shape, box))
    return Case(node, (*values, np.array(at, start.dtype)) if fed else values, oracle)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    forms: tuple[tuple[Shape, Shape, Shape], ...] = (
        ((8,), (4,), (2,)), ((8,), (4,), (7,)), ((5, 6), (2, 6), (3, 0)), ((5, 6), (2, 3), (-1, 9)),
        ((5, 6), (5, 6), (2, 2)), ((2, 5, 3), (2, 1, 3), (0, 4, 0)), ((2, 5, 3, 4), (1, 5, 2, 4), (1, 3, 1, 2)),
        ((4, 1, 5), (1, 1, 1), (3, 0, -5)),
        ((3, 2, 3, 2, 3), (2, 1, 2, 1, 2), (1, 1, 1, 1, 1)),
    )  # fmt: skip
    for i, (shape, box, at) in enumerate(forms):
        for type in ("INT8", ("FLOAT32", "INT16", "INT32")[i % 3]):
            yield _case(type, shape, box, at)
    yield _case("INT8", (5, 6), (2, 3), (1, 2), fed="")
    for type in ("INT64", "BOOL"):
        yield _case(type, (5, 6), (2, 3), (1, 9), oracle="litert")
    yield _case("FLOAT32", (5, 6), (2, 3), (1, 2), fed="INT64", oracle="litert")
    yield _case("FLOAT32", (5, 6), (2, 3), (-(2**40), 2**40), fed="INT64", oracle="litert")


OP = Op("DYNAMIC_UPDATE_SLICE", infer, reference, lower, cases)
