"""RESHAPE, SQUEEZE and EXPAND_DIMS: the same elements in another shape; no work if planned in place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Case, Op, Shape, need, tensor
from twinfer.runtime.ops.move._move import copy_call, indices
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def _wanted_shape(node: Node) -> Shape:
    """The new shape as the node gives it: input 1 (if computed at run time, the output's own shape), or the option."""
    given = node.optional(1)
    if given is not None and given.data is not None and given.data.ndim <= 1:
        return tuple(indices(node, 1))
    if given is not None:
        return node.output.shape
    return tuple(node.options.get("new_shape") or ())


def infer_reshape(node: Node) -> list[Shape]:
    x, wanted = node.input(0), _wanted_shape(node)
    open_dims = [i for i, d in enumerate(wanted) if d == -1]
    known = math.prod(d for d in wanted if d != -1)
    need(len(open_dims) <= 1 and all(d >= -1 for d in wanted), node, f"new shape {list(wanted)} is not valid")
    if open_dims and known:
        wanted = tuple(x.size // known if d == -1 else d for d in wanted)
    fits = -1 not in wanted and math.prod(wanted) == x.size
    need(fits, node, f"{x} cannot become shape {list(wanted)}: {x.size} elements")
    return [wanted]


def infer_squeeze(node: Node) -> list[Shape]:
    x = node.input(0)
    rank = len(x.shape)
    dims = {d % rank if -rank <= d < rank else -1 for d in node.options.get("squeeze_dims") or ()}
    need(all(d >= 0 and x.shape[d] == 1 for d in dims), node, f"cannot squeeze {sorted(dims)} of {x}")
    return [tuple(n for d, n in enumerate(x.shape) if not (d in dims if dims else n == 1))]


def infer_expand_dims(node: Node) -> list[Shape]:
    x, axis = node.input(0), indices(node, 1, 1)[0]
    rank = len(x.shape)
    need(-rank - 1 <= axis <= rank, node, f"axis {axis} is outside the rank of {x}")
    at = axis % (rank + 1)
    return [(*x.shape[:at], 1, *x.shape[at:])]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    return [inputs[0].reshape(node.output.shape)]


def lower(node: Node, target: Target) -> Call:
    need(node.input(0).type == node.output.type, node, "input and output differ in type")
    return copy_call(node)


def _case(op: str, x: Tensor, shape: Shape, *more: Tensor, **options: object) -> Case:
    y = tensor(shape, x.type, None if x.quant is None else x.scale, 0 if x.quant is None else x.zero, name="y")
    return Case(Node(op, (x, *more), (y,), options))


def reshape_cases(rng: np.random.Generator) -> Iterator[Case]:
    for type, scale in (("INT8", 0.5), ("FLOAT32", None), ("INT32", None)):
        new = tensor((3,), "INT32", data=np.array([3, -1, 5]))
        yield _case("RESHAPE", tensor((1, 6, 5), type, scale), (3, 2, 5), new, new_shape=(3, 2, 5))


def squeeze_cases(rng: np.random.Generator) -> Iterator[Case]:
    yield _case("SQUEEZE", tensor((1, 6, 1, 5), "INT8", 0.5, 3), (6, 5), squeeze_dims=())
    yield _case("SQUEEZE", tensor((1, 6, 1, 5)), (1, 6, 5), squeeze_dims=(-2,))


def expand_dims_cases(rng: np.random.Generator) -> Iterator[Case]:
    for axis, shape in ((0, (1, 4, 3)), (-1, (4, 3, 1)), (1, (4, 1, 3))):
        at = tensor((1,), "INT32", data=np.array([axis]))
        yield _case("EXPAND_DIMS", tensor((4, 3), "INT8", 0.5, 3), shape, at)
    for type in ("FLOAT32", "INT16"):
        yield _case("EXPAND_DIMS", tensor((4, 3), type), (4, 1, 3), tensor((1,), "INT32", data=np.array([1])))


def _op(name: str, infer: Callable[[Node], list[Shape]], cases: Callable[[np.random.Generator], Iterator[Case]]) -> Op:
    return Op(name, infer, reference, lower, cases, uint8="moves")


OPS = (
    _op("RESHAPE", infer_reshape, reshape_cases),
    _op("SQUEEZE", infer_squeeze, squeeze_cases),
    _op("EXPAND_DIMS", infer_expand_dims, expand_dims_cases),
)
