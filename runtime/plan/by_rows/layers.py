"""Which steps can run by rows: a step as a layer of a chain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from twinfer import kernels_c
from twinfer.kernels_c import lib
from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.by_rows.row_params import path_of, value_at
from twinfer.runtime.plan.by_rows.schedule import MOST_HEIGHT
from twinfer.runtime.program import Call, Layer, Step
from twinfer.runtime.rows import Rows

#: The most that a chain's tables have room for, of rows and what leads to them (kernels_c/run/chain.h).
MOST_ROWS = (1 << 16) - 1

#: How many more pixels than there are a kernel may compute.
LOST = 1.16

#: The rows of values that are no images [1, height, ...] but have the bytes of one.
Heights = Mapping[Tensor, int]
NONE: Heights = MappingProxyType({})


def layer_of(step: Step, heights: Heights = NONE) -> Layer | str:
    """The step as a layer of a chain; if it cannot run by rows, why not, in words."""
    call = step.call.rows_call or step.call
    rows, outputs = call.rows, call.outputs
    if rows is None or step.body != (step.call,):
        return "it computes all rows at once"
    if len(outputs) != 1 or not isinstance(outputs[0], Tensor):
        return f"it has {len(outputs)} outputs"
    out = outputs[0]
    sources = tuple(_sources(call, rows, out, heights))
    height = sources[0][2] if sources and (rows.sums or rows.flat) else _height(out, heights)
    if height < 2:
        return "its output is no image [1, height, width, channels] of two rows or more"
    moving = [argument for argument in call.inputs if isinstance(argument, Tensor)]
    if not sources or len(sources) != len(moving):
        return "it reads an input that is no image of as many rows"
    if height > MOST_HEIGHT or not _fits(call, sources):
        return "it has more inputs, params or rows than the tables of a chain have room for"
    if not _divides(call, rows, height):
        return "its rows are not all alike"
    own = replace(step, call=call, body=(call,), scratch=_scratch(step, call))
    return Layer(own, rows, height, _band(rows, height, out), sources)


def _scratch(step: Step, call: Call) -> Tensor | None:
    """The scratch memory of a step that is this call."""
    if call.scratch == step.call.scratch:
        return step.scratch
    return Tensor(f"scratch of {step.node}, by rows", "INT8", (call.scratch,)) if call.scratch else None


def _divides(call: Call, rows: Rows, height: int) -> bool:
    """Whether every row takes the same share of what params count."""
    names = [*rows.counts, *([f"{rows.sums}.count"] if rows.sums else [])]
    counts = [value_at(call.params, path_of(name)) for name in names]
    return not any(count % height or count // height % rows.units for count in counts)


def _fits(call: Call, sources: Sequence[Any]) -> bool:
    """Whether ``run/rows.h`` has room for the call."""
    sizes = kernels_c.params_bytes(call.kernel), len(call.inputs), len(sources)
    most = lib.TW_MAX_PARAMS, lib.TW_MAX_INPUTS, lib.TW_MAX_SOURCES
    rows = (call.rows.stride, call.rows.pad, call.rows.reach) if call.rows else ()
    return all(size <= limit for size, limit in zip(sizes, most, strict=True)) and max(rows, default=0) <= MOST_ROWS


def _band(rows: Rows, height: int, out: Tensor) -> int:
    """How many rows to compute at once: the fewest with which hardly any of the pixels that a kernel takes are lost."""
    for band in range(rows.tall, rows.pixels, rows.tall):
        width = band * out.shape[2]
        if -(-width // rows.pixels) * rows.pixels <= LOST * width:
            return min(band, height)
    return min(rows.pixels, height)


def _height(tensor: Tensor, heights: Heights) -> int:
    """The rows of an image [1, height, ...] of one batch; 0 if it is none."""
    image = len(tensor.shape) == 4 and tensor.shape[0] == 1 and tensor.nbytes
    return tensor.shape[1] if image else heights.get(tensor, 0)


def _sources(call: Call, rows: Rows, out: Tensor, heights: Heights) -> Iterator[tuple[int, Tensor, int]]:
    """The inputs that are read by rows: all of an element-wise operator, the first of any other."""
    first = rows.window or bool(rows.lines) or bool(rows.sums) or rows.flat
    for place, argument in enumerate(call.inputs):
        if not isinstance(argument, Tensor):
            continue
        height = _height(argument, heights)
        if (height and place == 0) if first else height == _height(out, heights):
            yield place, argument, height
