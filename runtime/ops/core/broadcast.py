"""Two operands of different shapes: the output's shape, and the walk of kernels_c/core/broadcast.h over rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import numpy as np

from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import Array, Call, Case, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.ops.core.quantized import need_symmetric
from twinfer.runtime.params import Param
from twinfer.runtime.target import Target

MAX_OUTER = 5

#: Rows of fewer elements leave SIMD lanes idle; they are tiled to about so many elements.
SHORT_ROW, TILED = 256, 1024


def infer_operands(node: Node, *types: str) -> list[Shape]:
    """Checks two operands of one type of ``types`` for one output of any type; the broadcast shape."""
    need(len(node.inputs) == 2 and len(node.outputs) == 1, node, "it needs two inputs and one output")
    a, b = node.input(0), node.input(1)
    need_type(node, a, *types)
    if a.type != b.type:
        raise unsupported(node, f"{a} and {b} are of different types, which has no kernel: cast or quantise them")
    return infer_broadcast(node)


def infer_broadcast(node: Node) -> list[Shape]:
    """The shape of both operands together; ModelError if they do not broadcast."""
    a, b = node.input(0), node.input(1)
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        need(False, node, f"{a} and {b} do not broadcast")
    groups = _collapse(a.shape, b.shape)
    if len(groups) > MAX_OUTER + 1:
        raise unsupported(node, f"{a} and {b} broadcast in too many ways: {len(groups)}; split the operator")
    return [tuple(shape)]


def infer_binary(node: Node, *types: str) -> list[Shape]:
    """Checks an operator of two operands and one result of one type of ``types``; the broadcast shape."""
    shapes = infer_operands(node, *types)
    a, b, y = node.input(0), node.input(1), node.output
    if y.type != a.type:
        raise unsupported(node, f"{a}, {b} and {y} are of different types, which has no kernel: cast or quantise them")
    return shapes


def infer_quantized(node: Node, *types: str) -> list[Shape]:
    """``infer_binary``, and int8 and int16 tensors are quantised per tensor."""
    shapes = infer_binary(node, *types)
    if node.output.type in ("INT8", "INT16"):
        need_symmetric(node, node.input(0), node.input(1), node.output)
    return shapes


def _collapse(a: Shape, b: Shape) -> list[tuple[int, bool, bool]]:
    """Dimensions as (extent, a has it, b has it), outermost first; neighbours that broadcast alike are one."""
    rank = max(len(a), len(b))
    wide_a, wide_b = ((1,) * (rank - len(s)) + s for s in (a, b))
    dims = [(n if m == 1 else m, m != 1, n != 1) for m, n in zip(wide_a, wide_b, strict=True) if (m, n) != (1, 1)]
    groups = [(math.prod(d[0] for d in same), *has) for has, same in groupby(dims, key=lambda d: d[1:])]
    return groups or [(1, True, True)]


def _jumps(shape: list[int], owned: list[bool], row: int) -> list[int]:
    """How far an operand moves when outer dimension d counts up and those inside it start again (innermost first)."""
    jumps, stride, back = [], row, 0
    for extent, own in zip(shape, owned, strict=True):
        step = stride if own else 0
        jumps.append(step - back)
        back += step * (extent - 1)
        stride *= extent if own else 1
    return jumps


def _tile(groups: list[tuple[int, bool, bool]]) -> int:
    """How many short rows to take as one where b is the same short row for all of a (a bias): a divisor of the rows."""
    if [g[1:] for g in groups] != [(True, False), (True, True)]:
        return 1
    rows, size = groups[0][0], groups[1][0]
    fit = range(1, min(rows, TILED // max(size, 1)) + 1) if size < SHORT_ROW else ()
    return max((k for k in fit if rows % k == 0), default=1)


@dataclass(frozen=True)
class Walk:
    """The member ``walk`` of a broadcasting kernel's params; kernels_c/core/broadcast.h says what is what."""

    size: int
    tile: int
    a_step: int
    b_step: int
    rows: int
    shape: tuple[int, ...]
    a_jump: tuple[int, ...]
    b_jump: tuple[int, ...]

    @classmethod
    def of(cls, a: Tensor, b: Tensor, target: Target, tiles: bool = True) -> Walk:
        """The walk over operands ``a`` and ``b``; ``tiles``: whether the kernel knows tile."""
        groups = _collapse(a.shape, b.shape)
        tile = _tile(groups) if tiles and target.wide else 1
        *outer, (size, a_step, b_step) = groups
        outer.reverse()
        shape = [n for n, _, _ in outer]
        if tile > 1:
            size, shape = size * tile, [shape[0] // tile]
        a_jump = _jumps(shape, [own for _, own, _ in outer], size if a_step else 1)
        b_jump = _jumps(shape, [own for _, _, own in outer], size if b_step else 1)
        filled = (tuple(values + [0] * (MAX_OUTER - len(outer))) for values in (shape, a_jump, b_jump))
        return cls(size, tile, int(a_step), int(b_step), math.prod(shape), *filled)


def broadcast_call(
    kernel: str,
    operands: tuple[Tensor, Tensor],
    y: Tensor,
    params: Mapping[str, Param],
    target: Target,
    *,
    tiles: bool = True,
) -> Call:
    """The call of a broadcasting kernel; ``params`` are those beside the walk, ``tiles`` as in ``Walk.of``."""
    a, b = operands
    walk = Walk.of(a, b, target, tiles)
    scratch = y.dtype.itemsize * walk.size if walk.tile != 1 else 0
    inplace = (0, 1) if a.dtype.itemsize == y.dtype.itemsize else ()
    return Call(kernel, {"walk": asdict(walk), **params}, operands, (y,), scratch, inplace=inplace)


def commuted(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The operands of a commutative kernel, the one that broadcasts second: it has one value a row or is smaller."""
    _, a_step, b_step = _collapse(a.shape, b.shape)[-1]
    return (b, a) if not a_step or (b_step and a.size < b.size) else (a, b)


#: Shapes of two operands that try every kind of walk, for ``cases``.
SHAPES: tuple[tuple[Shape, Shape], ...] = (
    ((), ()), ((1,), (1,)), ((67,), (67,)), ((2, 5, 7, 3), (2, 5, 7, 3)), ((2, 5, 7, 3), (3,)), ((3,), (2, 5, 7, 3)),
    ((4, 33), ()), ((1, 1), (4, 33)), ((3, 4, 1), (3, 1, 5)), ((1, 5, 1, 7), (3, 1, 6, 1)), ((2, 1, 33), (2, 4, 33)),
)  # fmt: skip


def binary_case(
    op: str,
    type: str,
    a: Shape,
    b: Shape,
    quant: Sequence[float] = (),
    *,
    values: tuple[Array, ...] | None = None,
    oracle: str = "tflm",
    **options: Any,
) -> Case:
    """One node of two operands; ``quant`` is scale and zero point of a, b and the output in turn."""
    scales, zeros = quant[::2] or (None,) * 3, quant[1::2] or (0,) * 3
    shapes = (a, b, tuple(np.broadcast_shapes(a, b)))
    x, z, y = (tensor(shapes[i], type, scales[i], int(zeros[i]), name="abc"[i]) for i in range(3))
    return Case(Node(op, (x, z), (y,), options), values, oracle)
