"""ARG_MAX and ARG_MIN: where the greatest (least) value along one dimension is, the first of equals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor
from twinfer.runtime.ops.core.axis import one_axis
from twinfer.runtime.ops.move._move import axis_in, check_arity, example, index, indices
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

#: uint8 here is that without scales: with them it runs as int8.
KERNELS = {
    "FLOAT32": "tw_arg_max_f32", "INT8": "tw_arg_max_s8", "INT32": "tw_arg_max_s32", "UINT8": "tw_arg_max_u8",
    "BOOL": "tw_arg_max_u8",
}  # fmt: skip


def _axis(node: Node) -> int:
    return axis_in(node, indices(node, 1, 1)[0], len(node.input(0).shape))


def infer(node: Node) -> list[Shape]:
    check_arity(node, 2)
    x, axis = node.input(0), _axis(node)
    need_type(node, x, *KERNELS)
    need_type(node, node.output, "INT32", "INT64")
    need(x.shape[axis] > 0, node, f"{x} is empty along axis {axis}")
    return [(*x.shape[:axis], *x.shape[axis + 1 :])]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """A NaN is neither greater nor less than anything: in front it stays, elsewhere it is passed by."""
    rows = np.moveaxis(inputs[0], _axis(node), 0)
    best, where = rows[0], np.zeros(rows.shape[1:], node.output.dtype)
    for i, values in enumerate(rows):
        better = values > best if node.op == "ARG_MAX" else values < best
        best, where = np.where(better, values, best), np.where(better, where.dtype.type(i), where)
    return [np.asarray(where)]


def lower(node: Node, target: Target) -> Call:
    x, y, axis = node.input(0), node.output, _axis(node)
    params: dict[str, Param] = {
        "axis": one_axis(x.shape, axis),
        "minimum": int(node.op == "ARG_MIN"),
        "wide": int(y.type == "INT64"),
    }
    return Call(KERNELS[x.type], params, (x,), (y,))


def cases(op: str, rng: np.random.Generator) -> Iterator[Case]:
    def one(type: str, shape: Shape, axis: int, out: str, oracle: str) -> Case:
        at = axis % len(shape)
        y = tensor((*shape[:at], *shape[at + 1 :]), out, name="y")
        values = rng.integers(0 if type == "UINT8" else -20, 20, shape).astype(example(type, shape).dtype)
        node = Node(op, (example(type, shape), index((axis,), shape=())), (y,), {"output_type": out})
        return Case(node, (values,), oracle)

    for shape, axis in (((7,), 0), ((1, 300), 1), ((3, 4, 5), -1), ((3, 4, 5), 0), ((2, 3, 4, 5), -2), ((4, 1), 1)):
        for type in ("FLOAT32", "INT8"):
            yield one(type, shape, axis, "INT32", "tflm")
        yield one("INT32", shape, axis, "INT64", "litert")
    for shape, axis in (((1, 300), 1), ((3, 4, 5), 1)):
        for type in ("BOOL", "UINT8"):
            case = one(type, shape, axis, "INT32", "litert")
            x = tensor(shape, type, name="x")
            yield replace(case, node=replace(case.node, inputs=(x, case.node.input(1))))
    contradicted = one("FLOAT32", (3, 4), 1, "INT32", "tflm")  # the tensor counts, as in TFLM
    yield replace(contradicted, node=replace(contradicted.node, options={"output_type": "INT64"}))


OPS = (
    Op("ARG_MAX", infer, reference, lower, lambda rng: cases("ARG_MAX", rng), uint8="computes"),
    Op("ARG_MIN", infer, reference, lower, lambda rng: cases("ARG_MIN", rng), uint8="computes"),
)
