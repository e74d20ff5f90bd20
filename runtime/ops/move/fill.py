"""FILL, ZEROS_LIKE and ONE_HOT: tensors of one value, or of two. Source: LiteRT's kernels of these names."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.constant import Constant, Role
from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.ops.move._move import axis_in, check_arity, check_moved, example, index, indices, same_meaning
from twinfer.runtime.ops.move.pad import zero_of
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def _check_values(node: Node, *values: Tensor) -> None:
    """Raise unless ``values`` are single ones, of the type and the quantisation of the output."""
    check_moved(node, *values)
    for value in values:
        need(value.size == 1, node, f"{value} must be a single value")
        if not same_meaning(value, node.output):
            raise unsupported(node, f"{value} and {node.output} must be quantised alike: requantise them")


def _infer_fill(node: Node) -> list[Shape]:
    check_arity(node, 2)
    dims, value = node.input(0), node.input(1)
    need_type(node, dims, "INT32", "INT64")
    need(len(dims.shape) == 1, node, f"{dims} must have one dimension")
    _check_values(node, value)
    shape = tuple(indices(node, 0))
    need(all(n >= 0 for n in shape), node, f"{list(shape)} is not a valid shape")
    return [shape]


def _infer_zeros(node: Node) -> list[Shape]:
    check_arity(node, 1)
    check_moved(node, node.input(0))
    zero_of(node)
    return [node.input(0).shape]


def _fill(node: Node, inputs: list[Any]) -> list[Array]:
    return [np.full(node.output.shape, inputs[1].reshape(()))]


def _zeros(node: Node, inputs: list[Any]) -> list[Array]:
    """What stands for 0; TFLM writes the stored value 0 whatever the zero point is."""
    return [np.full(node.output.shape, zero_of(node)[0])]


def _filled(node: Node, value: Tensor | Constant) -> Call:
    y = node.output
    return Call("tw_fill_all", {"size": y.nbytes, "element": y.dtype.itemsize}, (value,), (y,))


def _lower_zeros(node: Node, target: Target) -> Call:
    return _filled(node, Constant(zero_of(node), Role.INDEX, name="zero"))


def _depth(node: Node) -> int:
    (depth,) = indices(node, 1, 1)
    need(depth >= 0, node, f"a depth of {depth} is negative")
    return depth


def _axis(node: Node) -> int:
    """Where the new dimension stands, counted from the front."""
    rank = len(node.input(0).shape) + 1
    return axis_in(node, int(node.options.get("axis", -1)), rank)


def _infer_one_hot(node: Node) -> list[Shape]:
    check_arity(node, 4)
    numbers, on, off = node.input(0), node.input(2), node.input(3)
    need_type(node, numbers, "INT32", "INT64")
    _check_values(node, on, off)
    axis, depth = _axis(node), _depth(node)
    return [(*numbers.shape[:axis], depth, *numbers.shape[axis:])]


def _one_hot(node: Node, inputs: list[Any]) -> list[Array]:
    numbers, _, on, off = inputs
    at = np.expand_dims(numbers, _axis(node))
    places = np.arange(_depth(node)).reshape(-1, *[1] * (len(numbers.shape) - _axis(node)))
    return [np.where(at == places, on.reshape(()), off.reshape(()))]


def _lower_one_hot(node: Node, target: Target) -> Call:
    numbers, on, off, y = node.input(0), node.input(2), node.input(3), node.output
    axis = _axis(node)
    params = {
        "outer": math.prod(numbers.shape[:axis]), "depth": _depth(node), "inner": math.prod(numbers.shape[axis:]),
        "wide": numbers.dtype.itemsize, "element": y.dtype.itemsize,
    }  # fmt: skip
    return Call("tw_one_hot", params, (numbers, on, off), (y,))


def _fill_cases(rng: np.random.Generator) -> Iterator[Case]:
    for i, shape in enumerate(((), (1,), (7,), (3, 5), (2, 0, 3), (2, 3, 4, 5, 2))):
        for type in ("INT8", "FLOAT32", ("INT32", "INT64", "BOOL", "INT16")[i % 4]):
            value, given = example(type, ()), index(shape, ("INT32", "INT64")[i % 2])
            y = Tensor("y", type, shape, value.quant)
            in_tflm = type in ("INT8", "FLOAT32", "INT32") and shape != () and 0 not in shape
            yield Case(Node("FILL", (given, value), (y,)), None, "tflm" if in_tflm else "litert")
    yield Case(Node("FILL", (index((4,)), index([3], shape=())), (tensor((4,), "INT32", name="y"),)))


def _zeros_cases(rng: np.random.Generator) -> Iterator[Case]:
    for shape in ((), (7,), (3, 5)):
        for type in ("FLOAT32", "INT32", "INT64"):
            yield Case(Node("ZEROS_LIKE", (tensor(shape, type),), (tensor(shape, type, name="y"),)))
        for zero in (0, -7):
            x, y = (tensor(shape, "INT8", 0.5, zero, name=name) for name in "ty")
            why = "TFLM does not know of zero points" if zero else ""
            yield Case(Node("ZEROS_LIKE", (x,), (y,)), None, "none" if zero else "tflm", why)


def _one_hot_cases(rng: np.random.Generator) -> Iterator[Case]:
    forms: tuple[tuple[Shape, int, int], ...] = (
        ((), 3, -1), ((5,), 4, -1), ((5,), 4, 0), ((2, 3), 4, 1), ((2, 3), 1, -1), ((4,), 0, -1)
    )  # fmt: skip
    for i, (shape, depth, axis) in enumerate(forms):
        for type in ("FLOAT32", "INT8", ("INT32", "INT64", "BOOL", "UINT8", "INT16")[i % 5]):
            numbers = rng.integers(-1, depth + 1, shape).astype((np.int32, np.int64)[i % 2])
            on, off = example(type, ()), example(type, ())
            at = tensor(shape, ("INT32", "INT64")[i % 2], name="at")
            spot = axis % (len(shape) + 1)
            y = Tensor("y", type, (*shape[:spot], depth, *shape[spot:]), on.quant)
            values = (numbers, np.array(1, on.dtype), np.array(0, on.dtype))
            node = Node("ONE_HOT", (at, index([depth], shape=()), on, off), (y,), {"axis": axis})
            yield Case(node, values, *(("none", "LiteRT takes no int16") if type == "INT16" else ("litert",)))


OPS = (
    Op("FILL", _infer_fill, _fill, lambda node, target: _filled(node, node.input(1)), _fill_cases),
    Op("ZEROS_LIKE", _infer_zeros, _zeros, _lower_zeros, _zeros_cases),
    Op("ONE_HOT", _infer_one_hot, _one_hot, _lower_one_hot, _one_hot_cases),
)
