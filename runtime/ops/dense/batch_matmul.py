"""BATCH_MATMUL: the product of two matrices per leading index; leading dimensions broadcast."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.runtime.fixed_point import quantize_multiplier, reduced_multiplier, requantize, requantize_wide, wrap32
from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Case, Op, Shape, along, need, need_type, tensor, unsupported
from twinfer.runtime.ops.core.broadcast import broadcast_shape
from twinfer.runtime.ops.core.channels import weight_scales
from twinfer.runtime.ops.core.hybrid import quantize_dynamic
from twinfer.runtime.ops.core.loops import LOOPS, Outer, collapse, distances
from twinfer.runtime.ops.core.plain_s16 import SHIFTS
from twinfer.runtime.ops.core.quantized import need_symmetric
from twinfer.runtime.ops.dense import fully_connected
from twinfer.runtime.ops.dense._layer import ASYMMETRIC, as_dense
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


#: Type of the first operand -> types of the second; the output has that of the first.
TYPES = {"FLOAT32": ("FLOAT32", "INT8"), "INT8": ("INT8",), "INT16": ("INT16", "INT8")}


def infer(node: Node) -> list[Shape]:
    check_arity(node, 2)
    a, b, y = node.input(0), node.input(1), node.output
    need_type(node, a, *TYPES)
    if b.type not in TYPES[a.type] or a.type != y.type:
        raise unsupported(node, f"{a}, {b} and {y} differ in type: cast or quantise them")
    need(min(len(a.shape), len(b.shape)) >= 2, node, f"{a} and {b} must be matrices")
    (rows, depth), (other, cols) = _matrix(node, 0), _matrix(node, 1)
    need(depth == other, node, f"{a} and {b} cannot be multiplied: {depth} columns and {other} rows")
    batch = broadcast_shape(node, (a.shape[:-2], b.shape[:-2]), LOOPS)
    if b.type != "FLOAT32":
        _check_quant(node, cols)
    return [(*batch, rows, cols)]


def _check_quant(node: Node, cols: int) -> None:
    """ModelError unless scales are usable; those of one constant int8 matrix may be one per column.

    TFLM and LiteRT take such scales for the first of them, or for 0: that fault is not copied.
    """
    a, b, y = node.input(0), node.input(1), node.output
    if a.type != "FLOAT32":
        need_symmetric(node, a, y)
    if b.quant is None or not b.quant.per_channel:
        need_symmetric(node, b)
    else:
        column = len(b.shape) - (2 if _turned(node, 1) else 1)
        dense = as_dense(node) if b.quant.axis % len(b.shape) == column else None
        if dense is None:
            raise unsupported(node, f"{b} may have several scales only as one constant int8 matrix, one per column")
        weight_scales(dense, cols)
        need(not b.quant.zero_point.any(), node, f"{b} must have zero points of 0")
    if a.type != "INT8":
        zero = b.quant is not None and not b.quant.zero_point.any()
        need(zero, node, f"{b} must have a zero point of 0 beside {a.type.lower()}")
    if a.type == "INT16" and max(shift for _, shift in multipliers(node)) > SHIFTS[1]:
        raise unsupported(node, f"the scale of {y} is too small beside its inputs'; requantise the model")


def multipliers(node: Node) -> list[tuple[int, int]]:
    """Multiplier and shift of all columns, or of each."""
    a, b, y = node.input(0), node.input(1), node.output
    scales = [b.scale] if b.quant is None else b.quant.scale.tolist()
    return [quantize_multiplier(a.scale * scale / y.scale) for scale in scales]


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Source: TFLM reference BatchMatMul; float sums in order."""
    a, b = (x.swapaxes(-1, -2) if _turned(node, i) else x for i, x in enumerate(inputs))
    if b.dtype == np.int8 and a.dtype == np.float32:
        return [_hybrid(node, a, b)]
    if a.dtype == np.float32:
        total = np.zeros(node.output.shape, np.float32)
        for k in range(a.shape[-1]):
            total += a[..., :, k, None] * b[..., None, k, :]
        return [total]
    b_zero = int(node.input(1).quant.zero_point[0])  # type: ignore[union-attr]
    acc = (a.astype(np.int64) - node.input(0).zero) @ (b.astype(np.int64) - b_zero)
    mult, shift = (np.array(values) for values in zip(*multipliers(node), strict=True))
    if a.dtype == np.int16:
        steps = requantize_wide(acc, mult, shift)
    else:
        steps = wrap32(requantize(wrap32(acc), mult, shift) + node.output.zero)
    info = np.iinfo(a.dtype)
    return [np.asarray(np.clip(steps, info.min, info.max), a.dtype)]


def _symmetric(node: Node) -> bool:
    return not node.options.get(ASYMMETRIC, False)


def _hybrid(node: Node, a: Array, b: Array) -> Array:
    """Source: LiteRT batch_matmul.cc, EvalHybrid: every row of a is quantised by itself."""
    quant = node.input(1).quant
    scales = np.float32(1) if quant is None else quant.scale
    rows = a.reshape(-1, a.shape[-1])
    steps = [quantize_dynamic(row, _symmetric(node)) for row in rows]
    less = np.array([q.astype(np.int64) - zero for q, _, zero in steps]).reshape(a.shape)
    factors = np.array([scale for _, scale, _ in steps], np.float32).reshape(*a.shape[:-1], 1)
    return np.asarray((less @ b.astype(np.int64)).astype(np.float32) * (factors * scales), np.float32)


def matrices(node: Node) -> dict[str, Any]:
    """``tw_matrices`` of kernels_c/dense/batch_matmul.h."""
    a, b = node.input(0), node.input(1)
    (rows, depth), (_, cols) = _matrix(node, 0), _matrix(node, 1)
    dims = collapse(a.shape[:-2], b.shape[:-2])
    batches = Outer.of([n for n, _ in dims], distances(dims, 0), distances(dims, 1))
    a_row, a_depth = (1, rows) if _turned(node, 0) else (depth, 1)
    b_depth, b_col = (1, depth) if _turned(node, 1) else (cols, 1)
    steps = {"a_row": a_row, "a_depth": a_depth, "b_depth": b_depth, "b_col": b_col}
    return {"batches": batches._asdict(), "rows": rows, "depth": depth, "cols": cols, **steps}


def lower(node: Node, target: Target) -> Call:
    """The call in plain C; a product with one constant int8 matrix is FULLY_CONNECTED's."""
    dense = as_dense(node)
    if dense is not None:
        return fully_connected.lower(dense, target)
    a, b, y = node.input(0), node.input(1), node.output
    params: dict[str, Param] = {"matrices": matrices(node)}
    macs = math.prod(y.shape) * _matrix(node, 0)[1]
    if a.type == "FLOAT32" and b.type == "INT8":
        params |= {"symmetric": int(_symmetric(node)), "b_scale": b.scale}
        depth = _matrix(node, 0)[1]
        return Call("tw_batch_matmul_hybrid", params, (a, b), (y,), 5 * depth, macs=macs)
    if a.type == "FLOAT32":
        return Call("tw_batch_matmul_f32", params, (a, b), (y,), macs=macs)
    ((mult, shift),) = multipliers(node)
    if a.type == "INT16":
        params |= {"mult": int(reduced_multiplier(mult)), "right": 15 - shift}
        kernel = "tw_batch_matmul_s16" if b.type == "INT16" else "tw_batch_matmul_s16_s8"
        return Call(kernel, params, (a, b), (y,), macs=macs)
    params |= {"a_zero": a.zero, "b_zero": b.zero, "out_zero": y.zero, "mult": mult, "shift": shift}
    return Call("tw_batch_matmul_s8", params, (a, b), (y,), macs=macs)


def _constant_case(rng: np.random.Generator, type: str, shapes: tuple[Shape, Shape], scales: Any, zero: int) -> Case:
    """A second operand that is one constant matrix; the last dimension of ``shapes`` is summed: b is transposed."""
    (a, b), wide = shapes, type == "INT16"
    quant = [tensor((), type, *q) for q in (((1e-4, 0), (1e-3, 0)) if wide else ((0.05, 3), (0.4, -9)))]
    w = tensor(b, "INT8", scales, [zero] * len(scales), data=rng.integers(-128, 128, b), name="b")
    y = Tensor("y", type, (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-2]), quant[1].quant)
    ends = (Tensor("a", type, a, quant[0].quant), along(w, len(b) - 2)), (y,)
    oracle, why = ("none", "TFLM and LiteRT ignore scales per column") if len(scales) > 1 else ("tflm", "")
    oracle = "litert" if wide and not why else oracle
    return Case(Node("BATCH_MATMUL", *ends, {"adj_x": False, "adj_y": True}), None, oracle, why)


def _constant_cases(rng: np.random.Generator) -> Iterator[Case]:
    forms: tuple[tuple[Shape, Shape], ...] = (((3, 33), (17, 33)), ((2, 3, 40), (1, 6, 40)), ((5, 8), (1, 1, 1, 8)))
    for shapes in forms:
        for type in ("INT8", "INT16"):
            yield _constant_case(rng, type, shapes, [0.02], 0)
            yield _constant_case(rng, type, shapes, rng.uniform(0.01, 0.03, shapes[1][-2]).tolist(), 0)
        yield _constant_case(rng, "INT8", shapes, [0.02], 5)
    case = _constant_case(rng, "INT16", forms[0], [0.02], 0)
    w = case.node.input(1)
    straight = tensor((33, 17), "INT8", 0.02, data=w.data.T if w.data is not None else None, name="b")
    yield Case(Node("BATCH_MATMUL", (case.node.input(0), straight), case.node.outputs, {}), oracle="litert")


def _hybrid_cases(rng: np.random.Generator) -> Iterator[Case]:
    """Both ways to quantise rows; one constant matrix (also with a scale per column), several, one that is fed."""
    ends: tuple[tuple[Shape, Shape, bool], ...] = (
        ((3, 33), (33, 17), True), ((2, 3, 40), (40, 6), True), ((2, 3, 8), (2, 8, 5), True), ((1, 7), (7, 1), False),
        ((3, 1, 4, 9), (2, 9, 3), False),
    )  # fmt: skip
    for a, b, constant in ends:
        for adj_x, adj_y, asymmetric in ((False, False, True), (False, True, False), (True, False, False)):
            (*of_a, rows, depth), (*of_b, _, cols) = a, b
            shapes = (*of_a, depth, rows) if adj_x else a, (*of_b, cols, depth) if adj_y else b
            data = rng.integers(-127, 128, shapes[1]) if constant else None
            w = tensor(shapes[1], "INT8", 0.01, data=data, name="b")
            if constant and len(b) == 2 and adj_y:
                w = replace(w, quant=tensor((), "INT8", rng.uniform(0.01, 0.02, cols).tolist()).quant)
            y = tensor((*np.broadcast_shapes(tuple(of_a), tuple(of_b)), rows, cols), name="y")
            options = {"adj_x": adj_x, "adj_y": adj_y, ASYMMETRIC: asymmetric}
            yield Case(Node("BATCH_MATMUL", (tensor(shapes[0]), w), (y,), options), oracle="litert", tolerance=1e-5)


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
            x, y = tensor(a, "INT16", 1e-4, name="a"), tensor(shape, "INT16", 2e-4 * depth, name="y")
            for type, scale, oracle in (("INT16", 3e-4, "tflm"), ("INT8", 0.05, "litert")):
                z = tensor(b, type, scale, name="b")
                yield Case(Node("BATCH_MATMUL", (x, z), (y,), options), oracle=oracle)
    yield from _constant_cases(rng)
    yield from _hybrid_cases(rng)


OP = Op("BATCH_MATMUL", infer, reference, lower, cases)
