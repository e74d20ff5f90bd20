"""BATCH_MATMUL: the product of two matrices per leading index; leading dimensions broadcast."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from twinfer.runtime.fixed_point import quantize_multiplier, requantize, wrap32
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.ops.core.broadcast import broadcast_shape
from twinfer.runtime.ops.core.loops import LOOPS, Outer, collapse, distances
from twinfer.runtime.ops.core.quantized import need_quant
from twinfer.runtime.ops.move._move import check_arity
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def _turned(node: Node, i: int) -> bool:
    """Whether the matrices of input ``i`` are stored transposed."""
    return bool(node.options.get(("adj_x", "adj_y")[i], False))


def _matrix(node: Node, i: int) -> Shape:
    rows, cols = node.input(i).shape[-2:]
    return (cols, rows) if _turned(node, i) else (rows, cols)


def infer(node: Node) -> list[Shape]:
    check_arity(node, 2)
    a, b, y = node.input(0), node.input(1), node.output
    need_type(node, a, "FLOAT32", "INT8")
    if not a.type == b.type == y.type:
        raise unsupported(node, f"{a}, {b} and {y} differ in type: cast or quantise them")
    need(min(len(a.shape), len(b.shape)) >= 2, node, f"{a} and {b} must be matrices")
    (rows, depth), (other, cols) = _matrix(node, 0), _matrix(node, 1)
    need(depth == other, node, f"{a} and {b} cannot be multiplied: {depth} columns and {other} rows")
    batch = broadcast_shape(node, (a.shape[:-2], b.shape[:-2]), LOOPS)
    if a.type == "INT8":
        need_quant(node, a, b, y)
    return [(*batch, rows, cols)]


def _multiplier(node: Node) -> tuple[int, int]:
    return quantize_multiplier(node.input(0).scale * node.input(1).scale / node.output.scale)


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Source: TFLM reference BatchMatMul; float sums in order."""
    a, b = (x.swapaxes(-1, -2) if _turned(node, i) else x for i, x in enumerate(inputs))
    if a.dtype == np.int8:
        acc = (a.astype(np.int64) - node.input(0).zero) @ (b.astype(np.int64) - node.input(1).zero)
        steps = wrap32(requantize(wrap32(acc), *_multiplier(node)) + node.output.zero)
        return [np.asarray(np.clip(steps, -128, 127), np.int8)]
    total = np.zeros(node.output.shape, np.float32)
    for k in range(a.shape[-1]):
        total += a[..., :, k, None] * b[..., None, k, :]
    return [total]


def _matrices(node: Node) -> dict[str, Any]:
    """``tw_matrices`` of kernels_c/dense/batch_matmul.h."""
    a, b = node.input(0), node.input(1)
    (rows, depth), (_, cols) = _matrix(node, 0), _matrix(node, 1)
    dims = collapse(a.shape[:-2], b.shape[:-2])
    batches = Outer.of([n for n, _ in dims], distances(dims, 0), distances(dims, 1))
    return {
        "batches": asdict(batches),
        "rows": rows,
        "depth": depth,
        "cols": cols,
        **dict(zip(("a_row", "a_depth"), (1, rows) if _turned(node, 0) else (depth, 1), strict=True)),
        **dict(zip(("b_depth", "b_col"), (1, depth) if _turned(node, 1) else (cols, 1), strict=True)),
    }


def lower(node: Node, target: Target) -> Call:
    a, b, y = node.input(0), node.input(1), node.output
    params: dict[str, Param] = {"matrices": _matrices(node)}
    macs = math.prod(y.shape) * _matrix(node, 0)[1]
    if a.type == "FLOAT32":
        return Call("tw_batch_matmul_f32", params, (a, b), (y,), macs=macs)
    mult, shift = _multiplier(node)
    params |= {"a_zero": a.zero, "b_zero": b.zero, "out_zero": y.zero, "mult": mult, "shift": shift}
    return Call("tw_batch_matmul_s8", params, (a, b), (y,), macs=macs)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    forms: tuple[tuple[Shape, Shape, Shape], ...] = (
        ((), (1, 1), ()), ((), (3, 5), ()), ((2,), (4, 16), (2,)), ((2, 3), (2, 7), (2, 3)),
        ((2, 1), (3, 4), (1, 3)), ((3,), (2, 33), (1,)),
    )  # fmt: skip
    for i, (of_a, (rows, depth), of_b) in enumerate(forms):
        for adj_x, adj_y in ((False, False), (True, False), (False, True), (True, True)):
            cols = (1, 6, 17)[i % 3]
            a = (*of_a, depth, rows) if adj_x else (*of_a, rows, depth)
            b = (*of_b, cols, depth) if adj_y else (*of_b, depth, cols)
            shape = (*np.broadcast_shapes(of_a, of_b), rows, cols)
            options = {"adj_x": adj_x, "adj_y": adj_y}
            ends = (tensor(a, name="a"), tensor(b, name="b")), (tensor(shape, name="y"),)
            yield Case(Node("BATCH_MATMUL", *ends, options), tolerance=1e-4)
            quant = ((0.05, 3), (0.02, -7), (0.001 * depth + 0.01, 5))
            x, z, y = (tensor(s, "INT8", *q, name=n) for s, q, n in zip((a, b, shape), quant, "aby", strict=True))
            yield Case(Node("BATCH_MATMUL", (x, z), (y,), options))


OP = Op("BATCH_MATMUL", infer, reference, lower, cases)
