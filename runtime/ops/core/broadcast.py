"""Two operands of different shapes: the output's shape, and the walk of kernels_c/core/broadcast.h over rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Case, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.ops.core.loops import LOOPS, Dimension, Outer, collapse, distances
from twinfer.runtime.ops.core.quantized import need_symmetric
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.rows import Rows
from twinfer.runtime.target import Target

#: Rows of fewer than ``SHORT_ROW`` elements leave SIMD lanes idle; they are tiled to about ``TILED`` elements.
SHORT_ROW, TILED = 256, 1024

#: A fault of LiteRT's MUL of uint32 with RELU_N1_TO_1.
BOUND = "LiteRT takes the bound -1 as the greatest uint32"


def infer_operands(node: Node, *types: str) -> list[Shape]:
    """The broadcast shape of two operands, checked to have one type of ``types``; the output may have any."""
    need(len(node.inputs) == 2 and len(node.outputs) == 1, node, "it needs two inputs and one output")
    a, b = node.input(0), node.input(1)
    need_type(node, a, *types)
    if a.type != b.type:
        raise unsupported(node, f"{a} and {b} differ in type: cast or quantise them")
    return infer_broadcast(node)


def infer_broadcast(node: Node) -> list[Shape]:
    """The shape of both operands together; ModelError if they do not broadcast."""
    return [broadcast_shape(node, (node.input(0).shape, node.input(1).shape))]


def broadcast_shape(node: Node, shapes: Sequence[Shape], loops: int = LOOPS + 1) -> Shape:
    """The shape of the first inputs together, which broadcast as ``shapes``.

    Raises ModelError if they do not broadcast, UnsupportedOperatorError if a kernel needs more than ``loops`` loops.
    """
    *others, last = map(str, node.inputs[: len(shapes)])
    names = f"{', '.join(others)} and {last}"
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        need(False, node, f"{names} do not broadcast")
    count = len(collapse(*shapes))
    if count > loops:
        raise unsupported(node, f"{names} broadcast in too many ways: {count}; split the operator")
    return tuple(shape)


def infer_binary(node: Node, *types: str) -> list[Shape]:
    """The broadcast shape of two operands, checked to have one type of ``types``, as has the output."""
    shapes = infer_operands(node, *types)
    a, b, y = node.input(0), node.input(1), node.output
    if y.type != a.type:
        raise unsupported(node, f"{a}, {b} and {y} differ in type: cast or quantise them")
    return shapes


def infer_quantized(node: Node, *types: str) -> list[Shape]:
    """``infer_binary``, and int8 and int16 tensors are quantised per tensor."""
    shapes = infer_binary(node, *types)
    if node.output.type in ("INT8", "INT16"):
        need_symmetric(node, node.input(0), node.input(1), node.output)
    return shapes


def _tile(dims: Sequence[Dimension]) -> int:
    """How many rows to take as one, a divisor of their number; above 1 if b is one short row for all of a (a bias)."""
    if [owned for _, owned in dims] != [(True, False), (True, True)]:
        return 1
    rows, size = dims[0][0], dims[1][0]
    fit = range(1, min(rows, TILED // max(size, 1)) + 1) if size < SHORT_ROW else ()
    return max((k for k in fit if rows % k == 0), default=1)


class Walk(NamedTuple):
    """The member ``walk`` of a broadcasting kernel's params; kernels_c/core/broadcast.h describes it."""

    size: int
    tile: int
    a_step: int
    b_step: int
    outer: Outer

    @classmethod
    def of(cls, a: Tensor, b: Tensor, target: Target, tiles: bool = True) -> Walk:
        """The walk over operands ``a`` and ``b``; ``tiles``: whether the kernel can tile."""
        dims = collapse(a.shape, b.shape)
        tile = _tile(dims) if tiles and target.has("simd") else 1
        if tile > 1:
            (n, of_rows), (short, of_size) = dims
            dims = [(n // tile, of_rows), (short * tile, of_size)]
        (*a_rows, a_step), (*b_rows, b_step) = distances(dims, 0), distances(dims, 1)
        *rows, size = [n for n, _ in dims]
        return cls(size, tile, a_step, b_step, Outer.of(rows, a_rows, b_rows))


def broadcast_call(
    kernel: str,
    operands: tuple[Tensor, Tensor],
    y: Tensor,
    params: Mapping[str, Param],
    target: Target,
    *,
    tiles: bool = True,
) -> Call:
    """The call of a broadcasting kernel; ``params`` are those besides the walk, ``tiles`` is as in ``Walk.of``."""
    a, b = operands
    walk = Walk.of(a, b, target, tiles)
    scratch = y.dtype.itemsize * walk.size if walk.tile != 1 else 0
    inplace = (0, 1) if a.dtype.itemsize == y.dtype.itemsize else ()
    rows = Rows(counts=("walk.size",)) if a.shape == b.shape and walk.outer.rows == 1 else None
    params = {"walk": {**walk._asdict(), "outer": walk.outer._asdict()}, **params}
    return Call(kernel, params, operands, (y,), scratch, inplace=inplace, rows=rows)


def commuted(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The operands of a commutative kernel; second the one with one value per row, or else the smaller one."""
    _, (in_a, in_b) = collapse(a.shape, b.shape)[-1]
    return (b, a) if not in_a or (in_b and a.size < b.size) else (a, b)


#: Shapes of two operands that try every kind of walk, for ``cases``.
SHAPES: tuple[tuple[Shape, Shape], ...] = (
    ((), ()), ((1,), (1,)), ((67,), (67,)), ((2, 5, 7, 3), (2, 5, 7, 3)), ((2, 5, 7, 3), (3,)), ((3,), (2, 5, 7, 3)),
    ((4, 33), ()), ((1, 1), (4, 33)), ((3, 4, 1), (3, 1, 5)), ((1, 5, 1, 7), (3, 1, 6, 1)), ((2, 1, 33), (2, 4, 33)),
)  # fmt: skip


def binary_case(
    op: str,
    type: str,
    operands: tuple[Shape, Shape],
    quant: Sequence[float] = (),
    *,
    values: tuple[Array, ...] | None = None,
    oracle: str = "tflm",
    **options: Any,
) -> Case:
    """A node of two operands; ``quant`` has scale and zero point of a, of b and of the output."""
    scales, zeros = quant[::2] or (None,) * 3, quant[1::2] or (0,) * 3
    shapes = (*operands, tuple(np.broadcast_shapes(*operands)))
    x, z, y = (tensor(shapes[i], type, scales[i], int(zeros[i]), name="abc"[i]) for i in range(3))
    return Case(Node(op, (x, z), (y,), options), values, oracle)


def stored_cases(op: str, type: str, rng: np.random.Generator) -> Iterator[Case]:
    """Integers without scales in a few shapes, with overflow, and small ones with each activation; LiteRT decides."""
    for a, b in SHAPES[::2]:
        yield binary_case(op, type, (a, b), oracle="litert", fused_activation_function="NONE")
    info = np.iinfo(tensor((), type).dtype)
    for act in ("RELU", "RELU6", "RELU_N1_TO_1"):
        values = tuple(rng.integers(max(-9, info.min), 9, (9, 11)).astype(info.dtype) for _ in range(2))
        case = binary_case(op, type, ((9, 11),) * 2, values=values, oracle="litert", fused_activation_function=act)
        wraps = info.min == 0 and act == "RELU_N1_TO_1"
        yield replace(case, oracle="none", why=BOUND) if wraps else case
