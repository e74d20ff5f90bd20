"""CONCATENATION and PACK: tensors joined along an existing axis, or along a new one.

Source of the rules: LiteRT kernels/concatenation.cc and pack.cc. TFLM joins int8 tensors of different scales unchanged,
so they stand for other numbers; LiteRT refuses, and so does twinfer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Case, Op, Shape, need, unsupported
from twinfer.runtime.ops.core.unsigned import is_unsigned
from twinfer.runtime.ops.move._move import (
    axis_in,
    case,
    check_moved,
    copy_call,
    example,
    index,
    run_params,
    same_meaning,
)
from twinfer.runtime.program import Call
from twinfer.runtime.rows import Rows
from twinfer.runtime.target import Target


def _inputs(node: Node) -> list[Tensor]:
    """All inputs, checked: at least one, none absent, of one type, rank and meaning."""
    inputs = [node.input(i) for i in range(len(node.inputs))]
    need(bool(inputs) and len(node.outputs) == 1, node, f"{len(inputs)} inputs, {len(node.outputs)} outputs")
    check_moved(node, *inputs)
    for x in inputs:
        need(len(x.shape) == len(inputs[0].shape), node, f"{x} does not have the rank of {inputs[0]}")
        if not is_unsigned(node) and not same_meaning(x, node.output):  # uint8 is rescaled (runtime/passes/unsigned.py)
            raise unsupported(node, f"{x} and {node.output} differ in quantisation; insert a QUANTIZE before it")
    return inputs


def infer_concatenation(node: Node) -> list[Shape]:
    inputs = _inputs(node)
    activation = node.options.get("fused_activation_function", "NONE")
    if activation != "NONE":
        raise unsupported(node, f"fused activation {activation}; make it an operator of its own")
    axis = axis_in(node, int(node.options.get("axis", 0)), len(inputs[0].shape))
    first = list(inputs[0].shape)
    for x in inputs:
        need([*x.shape[:axis], first[axis], *x.shape[axis + 1 :]] == first, node, f"{x} does not fit {inputs[0]}")
    first[axis] = sum(x.shape[axis] for x in inputs)
    return [tuple(first)]


def infer_pack(node: Node) -> list[Shape]:
    inputs = _inputs(node)
    count = int(node.options.get("values_count", len(inputs)))
    need(count == len(inputs), node, f"values_count is {count}, there are {len(inputs)} inputs")
    shape = inputs[0].shape
    for x in inputs:
        need(x.shape == shape, node, f"{x} does not have the shape of {inputs[0]}")
    axis = axis_in(node, int(node.options.get("axis", 0)), len(shape) + 1)
    return [(*shape[:axis], len(inputs), *shape[axis:])]


def _axis(node: Node) -> int:
    return int(node.options.get("axis", 0)) % len(node.output.shape)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    join = np.stack if node.op == "PACK" else np.concatenate
    return [join(inputs, axis=_axis(node))]


def lower(node: Node, target: Target) -> Call:
    """For each of ``outer`` leading indices, every input gives one run of bytes in turn."""
    outer = math.prod(node.output.shape[: _axis(node)])
    inputs = [node.input(i) for i in range(len(node.inputs)) if node.input(i).size]
    if len(node.inputs) == 1 or not inputs:
        return copy_call(node)
    runs = [x.nbytes // outer for x in inputs]
    params, table = run_params(outer, runs)
    kernel = "tw_concatenation_ragged" if table else "tw_concatenation"
    whole = _axis(node) <= 1 or any(x.data is not None for x in inputs)  # rows read constants from their beginning
    by_rows = None if whole else Rows(counts=("outer",))
    return Call(kernel, params, (*inputs, *table), (node.output,), rows=by_rows)


def _concat(type: str, axis: int, *shapes: Shape, oracle: str = "tflm") -> Case:
    inputs = [example(type, shape) for shape in shapes]
    out = list(shapes[0])
    out[axis] = sum(shape[axis] for shape in shapes)
    return case("CONCATENATION", inputs, [tuple(out)], oracle, axis=axis, fused_activation_function="NONE")


def concatenation_cases(rng: np.random.Generator) -> Iterator[Case]:
    for type in ("INT8", "INT16", "INT32", "INT64", "FLOAT32"):
        yield _concat(type, -1, (3, 4), (3, 1))
        yield _concat(type, 0, (2, 5), (1, 5), (3, 5))
    for axis in (-4, -3, -2, -1, 0, 1, 2, 3):
        yield _concat("INT8", axis, (2, 3, 4, 5), (2, 3, 4, 5))
    equal = ((1, 1), (3, 3), (1,) * 10, (7, 7), (12, 12), (24, 24), (32, 32), (40, 40), (64, 64))
    ragged = ((2, 3, 4), (2, 4), (8, 4), (16, 8), (32, 16, 48), (260, 301))  # every word of tw_concatenation_ragged
    for sizes in (*equal, *ragged):
        yield _concat("INT8", 1, *((7, n) for n in sizes))
    yield _concat("INT8", 1, (4, 5))
    yield _concat("FLOAT32", 2, (2, 2, 3, 2), (2, 2, 1, 2))
    x = example("INT8", (3, 4))
    yield case("CONCATENATION", (x, x), [(3, 8)], axis=1, fused_activation_function="NONE")
    parts = (example("INT32", (3,)), index((5, -6)), example("INT32", (1,)))
    yield case("CONCATENATION", parts, [(6,)], axis=0, fused_activation_function="NONE")
    yield _concat("UINT8", 1, (3, 4), (3, 1), oracle="litert")
    yield _concat("BOOL", 1, (3, 4), (3, 1))
    yield _concat("INT8", 1, *((3, 1 + i % 3) for i in range(13)), oracle="litert")
    yield _concat("INT8", -2, (2, 1, 2, 1, 3), (2, 1, 2, 4, 3), oracle="litert")


def _pack(type: str, axis: int, shape: Shape, count: int, oracle: str = "tflm") -> Case:
    at = axis % (len(shape) + 1)
    out = (*shape[:at], count, *shape[at:])
    inputs = [example(type, shape) for _ in range(count)]
    return case("PACK", inputs, [out], oracle, axis=axis, values_count=count)


def pack_cases(rng: np.random.Generator) -> Iterator[Case]:
    for type in ("INT8", "INT32", "INT64", "FLOAT32"):
        yield _pack(type, 0, (3, 5), 2)
        yield _pack(type, -1, (3, 5), 3)
    for axis in (-3, -2, -1, 0, 1, 2):
        yield _pack("INT8", axis, (2, 7), 4)
    yield _pack("INT32", 0, (), 4)
    yield _pack("INT8", 1, (6,), 1)
    yield _pack("INT8", 2, (3, 2, 4), 3)
    yield _pack("INT16", 1, (3, 5), 2)
    yield _pack("UINT8", 1, (3, 5), 2, "litert")


OPS = (
    Op("CONCATENATION", infer_concatenation, reference, lower, concatenation_cases, uint8="moves"),
    Op("PACK", infer_pack, reference, lower, pack_cases, uint8="moves"),
)
