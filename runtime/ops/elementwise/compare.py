"""EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, LOGICAL_AND and LOGICAL_OR, with broadcasting."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from twinfer.runtime.fixed_point import quantize_multiplier, requantize
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import SUFFIX, Case, Op, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.ops.core.broadcast import SHAPES, broadcast_call, infer_operands
from twinfer.runtime.ops.core.quantized import need_symmetric
from twinfer.runtime.ops.functions._unary import INT8, lookup
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

#: Which outcomes of a comparison each operator accepts: bit 0 less, 1 equal, 2 greater, 3 neither (a NaN).
ACCEPTED = {"LESS": 1, "EQUAL": 2, "LESS_EQUAL": 3, "GREATER": 4, "GREATER_EQUAL": 6, "NOT_EQUAL": 13}

TYPES = ("INT8", "INT16", "BOOL", "FLOAT32", "INT32", "INT64")

#: Bits by which operands are shifted left before they are scaled; ``LEFT_SHIFT_FINE``: where both share a scale.
LEFT_SHIFT, LEFT_SHIFT_FINE = 8, 15

_MOST = {"INT8": 2.0**14, "INT16": 2.0**7}  # larger steps would leave int32


def infer(node: Node) -> list[Shape]:
    a, b = node.input(0), node.input(1)
    shapes = infer_operands(node, *(t for t in TYPES if t != "BOOL" or node.op in ("EQUAL", "NOT_EQUAL")))
    need_type(node, node.output, "BOOL")
    if _quantized(node):
        need_symmetric(node, a, b)
        if not _fine(node) and max(a.scale, b.scale) > _MOST[a.type]:
            raise unsupported(node, f"the scales of {a} and {b} must not be above {_MOST[a.type]:g}: requantise them")
    return shapes


def _quantized(node: Node) -> bool:
    """Whether values have scales: int8 always, int16 unless both operands are plain integers."""
    a, b = node.input(0), node.input(1)
    return a.type == "INT8" or (a.type == "INT16" and not a.quant is b.quant is None)


def _fine(node: Node) -> bool:
    """Whether int16 values are compared in fine steps: where it matters which one is less.

    LiteRT's EQUAL and NOT_EQUAL of int16 take steps of 1/256. Its other comparisons take stored values whatever their
    scales, which is a fault; where the scales are equal they agree with these.
    """
    return node.input(0).type == "INT16" and node.op not in ("EQUAL", "NOT_EQUAL")


def _infer_logical(node: Node) -> list[Shape]:
    shapes = infer_operands(node, "BOOL")
    need_type(node, node.output, "BOOL")
    return shapes


def _infer_not(node: Node) -> list[Shape]:
    need(len(node.inputs) == 1, node, f"it has {len(node.inputs)} inputs, not 1")
    need_type(node, node.input(0), "BOOL")
    need_type(node, node.output, "BOOL")
    return [node.input(0).shape]


def _multipliers(node: Node) -> list[tuple[int, int]]:
    """Multiplier and shift of both operands: their scales, or their shares in twice the larger one (as ADD's)."""
    scales = node.input(0).scale, node.input(1).scale
    common = 2 * max(scales) if _fine(node) else 1.0
    return [quantize_multiplier(scale / common) for scale in scales]


def _scaled(node: Node, i: int, q: Array) -> Array:
    """Stored values of operand ``i`` in steps that both operands share. Source: TFLM comparisons.cc (1/256)."""
    left = LEFT_SHIFT_FINE if _fine(node) else LEFT_SHIFT
    return requantize((q.astype(np.int64) - node.input(i).zero) << left, *_multipliers(node)[i])


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    a, b = inputs
    if _quantized(node):
        a, b = _scaled(node, 0, a), _scaled(node, 1, b)
    outcome = np.where(a < b, 1, np.where(a == b, 2, np.where(a > b, 4, 8)))
    return [outcome & ACCEPTED[node.op] != 0]


def _logical(node: Node, inputs: list[Any]) -> list[Array]:
    return [np.logical_and(*inputs) if node.op == "LOGICAL_AND" else np.logical_or(*inputs)]


def _as_stored(node: Node) -> bool:
    """Whether stored values compare like scaled ones: quantised alike, and no two scaled values equal."""
    a, b = node.input(0), node.input(1)
    every = np.arange(np.iinfo(a.dtype).min, np.iinfo(a.dtype).max + 1)
    return (a.scale, a.zero) == (b.scale, b.zero) and bool((np.diff(_scaled(node, 0, every)) > 0).all())


def lower(node: Node, target: Target) -> Call:
    a, b = node.input(0), node.input(1)
    params: dict[str, Param] = {"accepted": ACCEPTED[node.op]}
    if not _quantized(node) or _as_stored(node):
        return broadcast_call(f"tw_compare_{SUFFIX[a.type]}", (a, b), node.output, params, target, tiles=False)
    for prefix, (mult, shift) in zip(("a_", "b_"), _multipliers(node), strict=True):
        params |= {f"{prefix}mult": mult, f"{prefix}shift": shift}
    params |= (
        {"left": LEFT_SHIFT_FINE if _fine(node) else LEFT_SHIFT}
        if a.type == "INT16"
        else {"a_zero": a.zero, "b_zero": b.zero}
    )
    return broadcast_call(f"tw_compare_scaled_{SUFFIX[a.type]}", (a, b), node.output, params, target, tiles=False)


def _lower_logical(node: Node, target: Target) -> Call:
    """The lesser of bytes 0 and 1 is AND, the greater OR."""
    minimum = {"minimum": int(node.op == "LOGICAL_AND")}
    return broadcast_call("tw_maximum_s8", (node.input(0), node.input(1)), node.output, minimum, target)


def _case(
    op: str, type: str, shapes: tuple[Shape, Shape], quants: tuple[tuple[float, int], ...] = (), **how: Any
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
    yield from _int16_cases(op, rng)
    odd = np.array([np.nan, 1, -0.0, 0.0, np.inf, -np.inf, np.nan], np.float32)
    yield _case(op, "FLOAT32", ((7,), (7,)), inputs=(odd, odd[[1, 0, 3, 2, 4, 5, 6]]))
    if op in ("EQUAL", "NOT_EQUAL"):
        yield _case(op, "BOOL", ((3, 33), (33,)))
    yield _case(op, "INT8", ((4096,), (4096,)), ((0.5, 3), (0.5, -5)), inputs=every)


def _int16_cases(op: str, rng: np.random.Generator) -> Iterator[Case]:
    """Values near each other, and any; LiteRT rescales only for equality."""
    for shapes in SHAPES[::2]:
        yield _case(op, "INT16", shapes, ((0.5, 0), (0.5, 0)), oracle="litert")
    a = rng.integers(-(1 << 15), 1 << 15, 999)
    values = tuple(v.clip(-(1 << 15), (1 << 15) - 1).astype(np.int16) for v in (a, a + rng.integers(-3, 4, 999)))
    twice = values[0], (values[1] >> 1).astype(np.int16)
    for scales, fed in (((3e-5, 3e-5), values), ((1e-4, 2e-4), twice), ((0.7, 1e-6), values), ((0.9, 0.8), values)):
        rescaled = op in ("EQUAL", "NOT_EQUAL")
        oracle, why = (
            ("litert", "") if rescaled or scales[0] == scales[1] else ("none", "LiteRT compares stored values")
        )
        quants = tuple((scale, 0) for scale in scales)
        yield _case(op, "INT16", ((999,), (999,)), quants, inputs=fed, oracle=oracle, why=why)
    if op != "NOT_EQUAL":  # LiteRT writes nothing
        yield _case(op, "INT16", ((999,), (999,)), inputs=values, oracle="litert")
    yield _case(op, "INT16", ((9,), (9,)), ((128.0, 0), (3.0, 0)), oracle="none", why="LiteRT takes no scale from 1 on")


def _logical_cases(op: str, rng: np.random.Generator) -> Iterator[Case]:
    for shapes in SHAPES:
        yield _case(op, "BOOL", shapes, oracle="litert" if shapes[0] != shapes[1] else "tflm")


def _not_cases(rng: np.random.Generator) -> Iterator[Case]:
    for shape in ((), (1,), (3, 33)):
        yield Case(Node("LOGICAL_NOT", (tensor(shape, "BOOL"),), (tensor(shape, "BOOL", name="y"),)))


OPS = (
    *(Op(name, infer, reference, lower, partial(cases, name), uint8="computes") for name in ACCEPTED),
    *(
        Op(name, _infer_logical, _logical, _lower_logical, partial(_logical_cases, name))
        for name in ("LOGICAL_AND", "LOGICAL_OR")
    ),
    Op(
        "LOGICAL_NOT", _infer_not, lambda node, inputs: [np.logical_not(inputs[0])],
        lambda node, target: lookup(node, lambda q: q == 0, target), _not_cases,
    ),
)  # fmt: skip
