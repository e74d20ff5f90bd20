"""EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, LOGICAL_AND and LOGICAL_OR, with broadcasting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.fixed_point import quantize_multiplier, requantize
from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.ops.core.broadcast import SHAPES, broadcast_call, infer_operands
from twinfer.runtime.ops.core.quantized import need_quant
from twinfer.runtime.ops.elementwise._unary import INT8, lookup
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

#: Which outcomes of a comparison each operator accepts: bit 0 less, 1 equal, 2 greater, 3 neither (a NaN).
ACCEPTED = {"LESS": 1, "EQUAL": 2, "LESS_EQUAL": 3, "GREATER": 4, "GREATER_EQUAL": 6, "NOT_EQUAL": 13}

KERNELS = {
    "INT8": "tw_compare_s8",
    "BOOL": "tw_compare_s8",
    "FLOAT32": "tw_compare_f32",
    "INT32": "tw_compare_s32",
    "INT64": "tw_compare_s64",
}

LEFT_SHIFT = 8

_MOST = 2.0**14  # larger steps would leave int32


def infer(node: Node) -> list[Shape]:
    a, b = node.input(0), node.input(1)
    shapes = infer_operands(node, *(KERNELS if node.op in ("EQUAL", "NOT_EQUAL") else set(KERNELS) - {"BOOL"}))
    need_type(node, node.output, "BOOL")
    if a.type == "INT8":
        need_quant(node, a, b)
        if max(a.scale, b.scale) > _MOST:
            raise unsupported(node, f"the scales of {a} and {b} must not be above {_MOST:g}: requantise them")
    return shapes


def _infer_logical(node: Node) -> list[Shape]:
    shapes = infer_operands(node, "BOOL")
    need_type(node, node.output, "BOOL")
    return shapes


def _infer_not(node: Node) -> list[Shape]:
    need(len(node.inputs) == 1, node, f"it has {len(node.inputs)} inputs, not 1")
    need_type(node, node.input(0), "BOOL")
    need_type(node, node.output, "BOOL")
    return [node.input(0).shape]


def _scaled(x: Tensor, q: Array) -> Array:
    """Stored values in steps of 1/256, which both operands share. Source: TFLM comparisons.cc."""
    return requantize((q.astype(np.int64) - x.zero) << LEFT_SHIFT, *quantize_multiplier(x.scale))


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    a, b = inputs
    if a.dtype == np.int8:
        a, b = _scaled(node.input(0), a), _scaled(node.input(1), b)
    outcome = np.where(a < b, 1, np.where(a == b, 2, np.where(a > b, 4, 8)))
    return [outcome & ACCEPTED[node.op] != 0]


def _logical(node: Node, inputs: list[Any]) -> list[Array]:
    return [np.logical_and(*inputs) if node.op == "LOGICAL_AND" else np.logical_or(*inputs)]


def _as_stored(a: Tensor, b: Tensor) -> bool:
    """Whether stored int8 values compare like scaled ones: quantised alike, and no two scaled values equal."""
    same = (a.scale, a.zero) == (b.scale, b.zero)
    return same and bool((np.diff(_scaled(a, INT8)) > 0).all())


def lower(node: Node, target: Target) -> Call:
    a, b = node.input(0), node.input(1)
    params = {"accepted": ACCEPTED[node.op]}
    if a.type != "INT8" or _as_stored(a, b):
        return broadcast_call(KERNELS[a.type], (a, b), node.output, params, target, tiles=False)
    for prefix, x in (("a_", a), ("b_", b)):
        mult, shift = quantize_multiplier(x.scale)
        params |= {f"{prefix}zero": x.zero, f"{prefix}mult": mult, f"{prefix}shift": shift}
    return broadcast_call("tw_compare_scaled_s8", (a, b), node.output, params, target, tiles=False)


def _lower_logical(node: Node, target: Target) -> Call:
    """The lesser of bytes 0 and 1 is AND, the greater OR."""
    minimum = {"minimum": int(node.op == "LOGICAL_AND")}
    return broadcast_call("tw_maximum_s8", (node.input(0), node.input(1)), node.output, minimum, target)


def _lower_not(node: Node, target: Target) -> Call:
    return lookup(node, lambda q: q == 0)


def _case(
    op: str,
    type: str,
    shapes: tuple[Shape, Shape],
    quants: tuple[tuple[float, int], ...] = (),
    **how: Any,
) -> Case:
    """A comparison of operands of these shapes, with their scales and zero points; ``how``: fields of the case."""
    scales = quants or ((None, 0), (None, 0))
    a, b = (tensor(s, type, *q, name=n) for s, q, n in zip(shapes, scales, "ab", strict=True))
    y = tensor(tuple(np.broadcast_shapes(*shapes)), "BOOL", name="y")
    return Case(Node(op, (a, b), (y,)), **how)


_QUANTS = (
    ((0.5, 3), (0.5, 3)), ((0.5, 3), (0.25, -5)), ((0.001, -128), (0.001, -128)), ((0.05, 127), (0.9, -128)),
    ((1e-4, 0), (0.01, 3)),
)  # fmt: skip


def cases(op: str, rng: np.random.Generator) -> Iterator[Case]:
    for i, shapes in enumerate(SHAPES):
        oracle = "tflm" if len(shapes[0]) < 5 else "litert"
        for type in ("FLOAT32", ("FLOAT32", "INT32", "INT64")[i % 3]):
            values = [rng.integers(-2, 3, s) for s in shapes]
            fed = tuple(v.astype(tensor((), type).dtype) for v in values)
            yield _case(op, type, shapes, inputs=fed, oracle=oracle)
        yield _case(op, "INT8", shapes, _QUANTS[i % len(_QUANTS)])
    every = (np.repeat(INT8, 16).astype(np.int8), np.tile(INT8, 16).astype(np.int8))
    for quants in _QUANTS:
        yield _case(op, "INT8", ((4096,), (4096,)), quants, inputs=every)
    yield _case(op, "INT8", ((99,), (99,)), ((3.0, 4), (1.0, 0)), oracle="none", why="TFLM takes no scale from 1 on")
    odd = np.array([np.nan, 1, -0.0, 0.0, np.inf, -np.inf, np.nan], np.float32)
    yield _case(op, "FLOAT32", ((7,), (7,)), inputs=(odd, odd[[1, 0, 3, 2, 4, 5, 6]]))
    if op in ("EQUAL", "NOT_EQUAL"):
        yield _case(op, "BOOL", ((3, 33), (33,)))


def _logical_cases(op: str, rng: np.random.Generator) -> Iterator[Case]:
    for shapes in SHAPES:
        yield _case(op, "BOOL", shapes, oracle="litert" if shapes[0] != shapes[1] else "tflm")


def _not_cases(rng: np.random.Generator) -> Iterator[Case]:
    for shape in ((), (1,), (3, 33)):
        yield Case(Node("LOGICAL_NOT", (tensor(shape, "BOOL"),), (tensor(shape, "BOOL", name="y"),)))


def _op(name: str) -> Op:
    return Op(name, infer, reference, lower, lambda rng: cases(name, rng))


def _logical_op(name: str) -> Op:
    return Op(name, _infer_logical, _logical, _lower_logical, lambda rng: _logical_cases(name, rng))


OPS = (
    *map(_op, ACCEPTED),
    *map(_logical_op, ("LOGICAL_AND", "LOGICAL_OR")),
    Op("LOGICAL_NOT", _infer_not, lambda node, inputs: [np.logical_not(inputs[0])], _lower_not, _not_cases),
)
