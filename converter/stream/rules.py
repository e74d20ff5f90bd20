"""How operators treat time: row by row, by windows that slide over rows, or only with all rows at hand.

Also which rows of a tensor are new in a step, which come from the step before, and which are computed anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil, prod

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.facts import Moves
from twinfer.converter.table import row_of
from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import Shape
from twinfer.runtime.ops.core.window import Window, window_of

#: Rows [first, end) of a tensor along its time axis.
Range = tuple[int, int]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Timed:
    """A tensor with time along ``axis``: ``rows`` rows per window, ``hop`` of them new in every step.

    Row j of a window is row j + hop of the window before, but for the first ``before`` and the last ``after`` rows:
    padding reaches into these, so every window has its own.
    """

    axis: int
    rows: int
    hop: int
    before: int = 0
    after: int = 0

    @property
    def new(self) -> int:
        """The first row that the window before does not have."""
        return self.rows - self.after - self.hop


@dataclass
class Need:
    """The rows of a tensor that a step reads, and where it gets them."""

    timed: Timed
    mask: Mask = field(init=False)

    def __post_init__(self) -> None:
        self.mask = np.zeros(self.timed.rows, np.bool_)

    def add(self, rows: Range) -> None:
        self.mask[max(rows[0], 0) : max(rows[1], 0)] = True

    @property
    def left(self) -> Range:
        """The rows at the start that are computed in every step."""
        return _hull(self.mask, 0, self.timed.before)

    @property
    def kept(self) -> Range:
        """The rows that the step before has left in the state."""
        first, end = _hull(self.mask, self.timed.before, self.timed.new)
        return (first, self.timed.new) if first < end else (self.timed.new, self.timed.new)

    @property
    def right(self) -> Range:
        """The rows at the end that are computed in every step; all that the next step needs in its state are there."""
        timed, (first, end) = self.timed, self.kept
        needed = _hull(self.mask, timed.new, timed.rows)
        if first == end:
            return needed
        return timed.new, max(needed[1], timed.rows - timed.after)

    @property
    def fresh(self) -> list[Range]:
        return [rows for rows in (self.left, self.right) if rows[0] < rows[1]]


def _hull(mask: Mask, first: int, end: int) -> Range:
    """The least range that has all rows of the mask from ``first`` up to ``end``; empty if there are none."""
    places = np.flatnonzero(mask[first:end])
    return (first + int(places[0]), first + int(places[-1]) + 1) if places.size else (end, end)


#: Layers whose windows slide over rows.
CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
POOLS = ("MAX_POOL_2D", "AVERAGE_POOL_2D")

#: Operators that put rows around.
PADS = ("PAD", "PADV2")


class Whole(Exception):
    """The operator needs all rows of the window; the reason in words."""


@dataclass(frozen=True)
class Sliding:
    """Output row j reads rows j * stride - pad and on: ``extent`` of them."""

    stride: int = 1
    pad: int = 0
    extent: int = 1

    def source(self, rows: Range) -> Range:
        """The rows of the input that rows of the output read; those outside of the input are padding."""
        return rows[0] * self.stride - self.pad, (rows[1] - 1) * self.stride - self.pad + self.extent


@dataclass(frozen=True)
class Rule:
    """An operator that streams: what its outputs are in time, and which rows of its timed inputs they read."""

    outputs: Mapping[Tensor, Timed]
    sliding: Sliding = Sliding()


def in_time(node: Node, timed: Mapping[Tensor, Timed]) -> list[Tensor]:
    return [tensor for tensor in node.inputs if tensor is not None and tensor in timed]


def rule(node: Node, timed: Mapping[Tensor, Timed]) -> Rule:
    """The rule of a node with inputs in time. Whole if it needs all rows."""
    inputs = [timed[t] for t in in_time(node, timed)]
    if node.op in (*CONVOLUTIONS, *POOLS):
        return _windowed(node, timed)
    if node.op in PADS and node.input(0) in timed and len(inputs) == 1:
        x = inputs[0]
        before, after = (int(n) for n in node.constant(1)[x.axis])
        more = Timed(x.axis, x.rows + before + after, x.hop, x.before + before, x.after + after)
        return Rule({node.output: _timed(more)}, Sliding(1, before, 1))
    axis = _axis_behind(node, timed)
    first = inputs[0]
    if any((t.rows, t.hop) != (first.rows, first.hop) for t in inputs):
        raise Whole("its inputs have different numbers of rows")
    before, after = max(t.before for t in inputs), max(t.after for t in inputs)
    return Rule({t: _timed(Timed(axis, first.rows, first.hop, before, after)) for t in node.outputs})


def _timed(timed: Timed) -> Timed:
    """The timing of an output; Whole if no row of it can be taken from the step before."""
    if timed.before >= timed.new:
        raise Whole("padding at both ends reaches into every row of its output")
    return timed


def geometry(node: Node) -> Window:
    """The window of a layer that slides over rows and columns."""
    if node.op in POOLS:
        k_h, k_w = int(node.options["filter_height"]), int(node.options["filter_width"])
    else:
        _, k_h, k_w, _ = node.input(1).shape
    return window_of(node, k_h, k_w, node.output.shape[3])


def is_single(node: Node, x: Timed) -> bool:
    """Whether a layer has a single window in time."""
    return x.axis in (1, 2) and node.output.shape[x.axis] == 1


def _windowed(node: Node, timed: Mapping[Tensor, Timed]) -> Rule:
    x = timed.get(node.input(0))
    if x is None or len(in_time(node, timed)) > 1:
        raise Whole("its weights are computed")
    if node.op in CONVOLUTIONS and node.input(0).type == "FLOAT32" and node.input(1).type != "FLOAT32":
        raise Whole("its input is quantised in every run, by the range of all rows")
    if x.axis not in (1, 2):
        raise Whole("time is not among the dimensions that its windows slide over")
    if is_single(node, x):
        raise Whole("its one window has all rows")
    g = geometry(node)
    by_row = x.axis == 1
    stride, pad = (g.stride_h, g.pad_h) if by_row else (g.stride_w, g.pad_w)
    taps, dilation = (g.k_h, g.dilation_h) if by_row else (g.k_w, g.dilation_w)
    rows = g.out_h if by_row else g.out_w
    if node.op in POOLS and any(_padding(g)):
        raise Whole("it pools over padding, which counts as nothing")
    sliding = Sliding(stride, pad, (taps - 1) * dilation + 1)
    return Rule({node.output: _timed(_slid(x, rows, sliding))}, sliding)


def _padding(g: Window) -> tuple[int, int, int, int]:
    """Rows above and below, columns left and right that windows see beside the input."""
    below = (g.out_h - 1) * g.stride_h - g.pad_h + (g.k_h - 1) * g.dilation_h + 1 - g.in_h
    right = (g.out_w - 1) * g.stride_w - g.pad_w + (g.k_w - 1) * g.dilation_w + 1 - g.in_w
    return g.pad_h, max(below, 0), g.pad_w, max(right, 0)


def columns(node: Node, axis: int) -> tuple[int, int]:
    """Padding that a layer has before and behind the dimension that is not time."""
    top, below, left, right = _padding(geometry(node))
    return (left, right) if axis == 1 else (top, below)


def _slid(x: Timed, rows: int, s: Sliding) -> Timed:
    """The timing behind windows."""
    if x.hop % s.stride:
        raise Whole(f"{x.hop} new rows are no multiple of its stride {s.stride}")
    before = min(ceil((x.before + s.pad) / s.stride), rows)
    last = (x.rows - 1 - x.after + s.pad - (s.extent - 1)) // s.stride
    return Timed(x.axis, rows, x.hop // s.stride, before, max(rows - 1 - last, 0))


def _axis_behind(node: Node, timed: Mapping[Tensor, Timed]) -> int:
    """The time axis of the outputs of a node that computes every row by itself. Whole for any other."""
    row, x = row_of(node), in_time(node, timed)[0]
    axis = timed[x].axis
    check = _BY_ROW.get(node.op)
    if check is not None:  # just the data of the node must be in time: all of it, along one dimension
        inputs = in_time(node, timed)
        if inputs != [*{"CONCATENATION": node.inputs, "SPLIT": node.inputs[1:]}.get(node.op, node.inputs[:1])]:
            raise Whole("it reads all rows of one of its inputs")
        if len({timed[t].axis for t in inputs}) > 1:
            raise Whole("its inputs have time in different dimensions")
        return check(node, x, axis)
    if row.moves is Moves.RESHAPES:
        return _reshaped(node, x, axis)
    if row.elementwise:
        return _elementwise(node, timed)
    if row.dimensions is not None and row.dimensions.last and axis < len(x.shape) - 1 and len(node.inputs) == 1:
        return axis
    raise Whole("it reads all rows")


def _elementwise(node: Node, timed: Mapping[Tensor, Timed]) -> int:
    shape = node.output.shape
    inputs = in_time(node, timed)
    axes = {timed[t].axis for t in inputs}
    if len(axes) != 1 or any(len(t.shape) != len(shape) for t in inputs):
        raise Whole("its inputs have time in different dimensions")
    (axis,) = axes
    for t in node.inputs:
        behind = len(shape) - axis
        if t is not None and t not in timed and len(t.shape) >= behind and t.shape[len(t.shape) - behind] != 1:
            raise Whole(f"{t} differs from row to row")
    return axis


def _reshaped(node: Node, x: Tensor, axis: int) -> int:
    """RESHAPE, SQUEEZE and EXPAND_DIMS may change what is in a row, if all before time is one."""
    rows, shape = x.shape[axis], node.output.shape
    for place, extent in enumerate(shape):
        if extent == rows and prod(shape[:place]) == prod(x.shape[:axis]):
            return place
        if prod(shape[: place + 1]) > prod(x.shape[:axis]):
            break
    raise Whole("it mixes rows with what is in them")


def _concatenated(node: Node, x: Tensor, axis: int) -> int:
    rank = len(x.shape)
    if int(node.options["axis"]) % rank == axis:
        raise Whole("it joins tensors in time")
    return axis


def _split(node: Node, x: Tensor, axis: int) -> int:
    if int(node.constant(0).reshape(-1)[0]) % len(x.shape) == axis:
        raise Whole("it cuts time")
    return axis


def _reduced(node: Node, x: Tensor, axis: int) -> int:
    rank = len(x.shape)
    axes = {int(a) % rank for a in node.constant(1).reshape(-1)}
    if axis in axes:
        raise Whole("it reads all rows")
    return axis if node.options["keep_dims"] else axis - sum(a < axis for a in axes)


def _dense(node: Node, x: Tensor, axis: int) -> int:
    """FULLY_CONNECTED over parts of a row, or a whole one."""
    if prod(x.shape[axis + 1 :]) % node.input(1).shape[-1]:
        raise Whole("it reads all rows")
    if node.options.get("keep_num_dims"):
        return axis
    return _reshaped(node, x, axis)


#: Operators that compute rows by themselves under a condition, and where time is in their outputs.
_BY_ROW: Mapping[str, Callable[[Node, Tensor, int], int]] = {
    "TRANSPOSE": lambda node, x, axis: [int(d) % len(x.shape) for d in node.constant(1)].index(axis),
    "CONCATENATION": _concatenated,
    "SPLIT": _split,
    "FULLY_CONNECTED": _dense,
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"), _reduced),
}


def with_rows(shape: Shape, axis: int, rows: int) -> Shape:
    return (*shape[:axis], rows, *shape[axis + 1 :])
