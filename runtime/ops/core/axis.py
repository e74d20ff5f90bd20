"""A tensor as kernels that work along an axis see it: the structs of kernels_c/core/axis.h."""

from __future__ import annotations

import math
from typing import NamedTuple

from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import Shape, need, need_type


def last_axis(shape: Shape) -> dict[str, int]:
    """``tw_last_axis``: rows of the last dimension."""
    return {"rows": math.prod(shape[:-1]), "depth": shape[-1]}


def normalized(node: Node, *types: str, wide: bool = False) -> tuple[Tensor, Tensor]:
    """The input and the output, of one type of ``types``; ModelError without exactly one input and a last dimension.

    ``wide``: the output of int8 may also be int16.
    """
    need(len(node.inputs) == 1, node, f"it has {len(node.inputs)} inputs, not 1")
    x, y = node.input(0), node.output
    need_type(node, x, *types)
    need_type(node, y, x.type, *(("INT16",) if wide and x.type == "INT8" else ()))
    need(len(x.shape) >= 1 and x.shape[-1] >= 1, node, f"{x} has no last dimension to normalise")
    return x, y


def one_axis(shape: Shape, axis: int) -> dict[str, int]:
    """``tw_axis``: the dimension ``axis``, counted from the front, and the products of those before and behind it."""
    return {"outer": math.prod(shape[:axis]), "count": shape[axis], "inner": math.prod(shape[axis + 1 :])}


class Axes(NamedTuple):
    """``tw_axes``: ``first``, ``middle`` and ``last`` are reduced, the others kept."""

    outer: int
    first: int
    inner: int
    middle: int
    depth: int
    last: int

    @property
    def as_one(self) -> dict[str, int] | None:
        """``tw_axis`` if only ``middle`` is reduced, else None."""
        if self.first * self.last != 1:
            return None
        return {"outer": self.outer * self.inner, "count": self.middle, "inner": self.depth}
