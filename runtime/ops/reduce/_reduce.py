"""What the reductions share: which dimensions are reduced, and how kernels walk them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Shape, need, tensor, unsupported
from twinfer.runtime.ops.core.axis import Axes
from twinfer.runtime.ops.move._move import indices


def axes_of(node: Node) -> tuple[int, ...]:
    """The reduced dimensions, in order, each once."""
    rank = len(node.input(0).shape)
    given = indices(node, 1)
    need(all(-rank <= a < rank for a in given), node, f"axis {given} is outside the rank of {node.input(0)}")
    return tuple(sorted({a % rank for a in given}))


def count_of(node: Node) -> int:
    """How many input values make one output."""
    return math.prod(node.input(0).shape[a] for a in axes_of(node))


def rows_of(node: Node, x: Array) -> Array:
    """[outputs, values of each]: what makes one output as a row, in the order of memory."""
    axes = axes_of(node)
    kept = [d for d in range(x.ndim) if d not in axes]
    return x.transpose(*kept, *axes).reshape(-1, count_of(node))


def sum_in_order(node: Node, x: Array) -> Array:
    """The sums of float32 values, each added to the sum of those before it."""
    rows = rows_of(node, x)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.add.accumulate(np.pad(rows, ((0, 0), (1, 0))), axis=1)[:, -1])


def reduced_shape(node: Node) -> Shape:
    """The output's shape; reduced dimensions stay as 1 where the node says so."""
    axes, keep = axes_of(node), bool(node.options.get("keep_dims", False))
    return tuple(1 if d in axes else n for d, n in enumerate(node.input(0).shape) if keep or d not in axes)


def reduced_axes(node: Node) -> Axes:
    """The input's shape as kernels walk it: neighbours merged, extents of 1 in front."""
    dims, axes = [1], axes_of(node)
    for d, n in enumerate(node.input(0).shape):
        if n == 1:
            continue
        if (d in axes) == (len(dims) % 2 == 0):
            dims[-1] *= n
        else:
            dims.append(n)
    dims += [1] * (len(dims) % 2)
    if len(dims) > 6:
        raise unsupported(node, "kept and reduced dimensions alternate more than three times: transpose the input")
    return Axes(*[1] * (6 - len(dims)), *dims)


def reduction(op: str, x: Tensor, axes: Sequence[int], keep: bool, quant: tuple[float, int] | None = None) -> Node:
    """A node for cases: ``x`` reduced along ``axes``, the output's scale and zero point as ``quant``."""
    reduced = {a % len(x.shape) for a in axes}
    shape = tuple(1 if d in reduced else n for d, n in enumerate(x.shape) if keep or d not in reduced)
    scale, zero = quant or (None, 0)
    at = tensor((len(axes),), "INT32", data=np.array(axes), name="axis")
    return Node(op, (x, at), (tensor(shape, x.type, scale, zero, name="y"),), {"keep_dims": keep})
