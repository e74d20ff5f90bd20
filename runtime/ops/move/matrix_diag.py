"""MATRIX_DIAG and MATRIX_SET_DIAG: values on the diagonals of matrices. Source: LiteRT's kernels of these names."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.constant import Constant, Role
from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Case, Op, Shape, need, unsupported
from twinfer.runtime.ops.move._move import case, check_arity, check_moved, example, mover, same_meaning
from twinfer.runtime.ops.move.pad import zero_of
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def _infer_diag(node: Node) -> list[Shape]:
    x = mover(node, 1, alike=True)
    need(len(x.shape) >= 1, node, f"{x} must have at least one dimension")
    zero_of(node)
    return [(*x.shape, x.shape[-1])]


def _infer_set(node: Node) -> list[Shape]:
    check_arity(node, 2)
    x, diagonal = node.input(0), node.input(1)
    check_moved(node, x, diagonal)
    if not (same_meaning(x, node.output) and same_meaning(diagonal, node.output)):
        raise unsupported(node, f"{x}, {diagonal} and {node.output} must be quantised alike: requantise them")
    need(len(x.shape) >= 2, node, f"{x} must have at least two dimensions")
    wanted = (*x.shape[:-2], min(x.shape[-2:]))
    need(diagonal.shape == wanted, node, f"{diagonal} must be {list(wanted)}")
    return [x.shape]


def _diag(node: Node, inputs: list[Any]) -> list[Array]:
    """What stands for 0 elsewhere; LiteRT writes the stored value 0 whatever the zero point is."""
    return _set(node, [np.full(node.output.shape, zero_of(node)[0]), inputs[0]])


def _set(node: Node, inputs: list[Any]) -> list[Array]:
    y = inputs[0].copy()
    places = np.arange(min(y.shape[-2:]))
    y[..., places, places] = inputs[1]
    return [y]


def _params(y: Tensor) -> dict[str, Param]:
    *batch, rows, columns = y.shape
    return {"batch": math.prod(batch), "rows": rows, "columns": columns, "element": y.dtype.itemsize}


def _lower_diag(node: Node, target: Target) -> Call:
    zero = Constant(zero_of(node), Role.INDEX, name="zero")
    return Call("tw_matrix_diag", _params(node.output), (node.input(0), zero), (node.output,))


def _lower_set(node: Node, target: Target) -> Call:
    inputs = (node.input(0), node.input(1))
    return Call("tw_matrix_set_diag", _params(node.output), inputs, (node.output,), inplace=(0,))


#: Types that LiteRT has.
TYPES = ("FLOAT32", "UINT8", "INT16", "INT32", "INT64")


def _diag_cases(rng: np.random.Generator) -> Iterator[Case]:
    for i, shape in enumerate(((1,), (5,), (2, 3), (2, 1, 4))):
        for type in ("FLOAT32", TYPES[1 + i % 4]):
            yield case("MATRIX_DIAG", (example(type, shape),), [(*shape, shape[-1])], "litert")
        quantised = case("MATRIX_DIAG", (example("INT8", shape),), [(*shape, shape[-1])])
        yield Case(quantised.node, None, "none", "LiteRT does not know of zero points")


def _set_cases(rng: np.random.Generator) -> Iterator[Case]:
    for i, shape in enumerate(((1, 1), (4, 4), (3, 5), (2, 5, 3), (2, 2, 3, 3))):
        for type in ("INT8", TYPES[i]):
            x, diagonal = example(type, shape), example(type, (*shape[:-2], min(shape[-2:])))
            node = Node("MATRIX_SET_DIAG", (x, diagonal), (Tensor("y", type, shape, x.quant),))
            yield Case(node, None, "litert")


OPS = (
    Op("MATRIX_DIAG", _infer_diag, _diag, _lower_diag, _diag_cases),
    Op("MATRIX_SET_DIAG", _infer_set, _set, _lower_set, _set_cases),
)
