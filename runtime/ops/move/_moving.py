"""Boxes of evenly spaced elements whose place may be known at run time only: SLICE and STRIDED_SLICE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import Shape, need, need_type, unsupported
from twinfer.runtime.ops.core.loops import LOOPS, filled
from twinfer.runtime.ops.move._move import Axis, slice_call, steps
from twinfer.runtime.program import Call


@dataclass(frozen=True)
class Cut:
    """The part of one input axis: ``count`` elements from ``start`` on; ``kept`` axes appear in the output.

    With a ``number`` the start is that element of the tensor of starts, brought into ``start..start + last``. If it is
    negative, it counts from the end of ``extent`` first (0: it does not).
    """

    start: int
    count: int
    stride: int = 1
    kept: bool = True
    number: int | None = None
    last: int = 0
    extent: int = 0

    def first(self, numbers: Array) -> int:
        """Where the part starts."""
        if self.number is None:
            return self.start
        at = int(numbers[self.number])
        return min(max(at + (self.extent if at < 0 else 0), self.start), self.start + self.last)


def declared(node: Node, place: int) -> int:
    """The extent of the output that the file says; UnsupportedOperatorError if it leaves that open."""
    y = node.output
    if place >= len(y.shape) or (place < len(y.shape_signature) and y.shape_signature[place] < 0):
        raise unsupported(node, f"dimension {place} of {y} is decided at run time; give it a fixed size")
    return y.shape[place]


def check_numbers(node: Node, *places: int) -> None:
    """Raise unless the inputs at ``places`` are vectors of integers that kernels can read."""
    for t in (node.input(i) for i in places):
        need(len(t.shape) == 1, node, f"{t} must have one dimension")
        if t.data is None:
            need_type(node, t, "INT32", "INT64")


def moved(node: Node, cut: Cut, n: int, number: int) -> Cut:
    """The cut of an axis of extent ``n`` with its start at run time; ModelError if it does not fit in the axis."""
    reach = (cut.count - 1) * abs(cut.stride)
    need(cut.count == 0 or reach < n, node, f"{cut.count} elements, {cut.stride} apart, do not fit in an extent of {n}")
    low = reach if cut.stride < 0 and cut.count else 0
    return replace(cut, start=low, last=max(n - 1 - reach, 0) if cut.count else 0, number=number)


def fixed(node: Node, cut: Cut, n: int) -> Cut:
    """The cut, checked to lie inside of an axis of extent ``n``."""
    end = cut.start + (cut.count - 1) * cut.stride
    inside = cut.count == 0 or (0 <= cut.start < n and 0 <= end < n)
    need(inside, node, f"{cut.count} elements from {cut.start} on, {cut.stride} apart, are not inside {n}")
    return cut


def picked(x: Array, cuts: Sequence[Cut], numbers: Array, shape: Shape) -> Array:
    """What ``cuts`` leave of x, in numpy."""
    at = [c.first(numbers) + c.stride * np.arange(c.count) for c in cuts]
    return np.ascontiguousarray(x[np.ix_(*at)] if at else x).reshape(shape)


def box_call(node: Node, cuts: Sequence[Cut], numbers: Tensor) -> Call:
    """The call that fills output 0 with what ``cuts`` leave of input 0."""
    x = node.input(0)
    step = steps(x.shape, x.dtype.itemsize)
    axes: list[Axis] = [(c.count, c.stride * s) for c, s in zip(cuts, step, strict=True)]
    moves = [(c, s) for c, s in zip(cuts, step, strict=True) if c.last]
    call = slice_call(node, sum(c.start * s for c, s in zip(cuts, step, strict=True)), axes)
    if call.kernel != "tw_slice" or not moves:
        return call
    if len(moves) > LOOPS:
        raise unsupported(node, f"{numbers} moves a box along {len(moves)} axes of {x}, {LOOPS} are the limit")
    places = {
        "axis": filled([c.number or 0 for c, _ in moves], 0), "extent": filled([c.extent for c, _ in moves], 0),
        "low": filled([c.start for c, _ in moves], 0), "last": filled([c.last for c, _ in moves], 0),
        "stride": filled([s for _, s in moves], 0),
    }  # fmt: skip
    params = {**call.params, "wide": numbers.dtype.itemsize, "moves": places}
    return Call("tw_slice_at", params, (x, numbers), call.outputs)
