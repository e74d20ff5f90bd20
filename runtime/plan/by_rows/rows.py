"""Layers by rows: which steps can run so, in which order the layers of a chain compute rows, and what they keep.

A layer computes its next rows when one behind it needs them: nothing is computed in advance, so that every tensor holds
as few rows as its readers allow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from twinfer import kernels_c
from twinfer.kernels_c import lib
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.plan.by_rows.row_params import value_at
from twinfer.runtime.program import Call, Chain, Layer, Step
from twinfer.runtime.rows import Feed, Rows, row_axis

#: What gives rows in a chain.
Link = Feed | Layer

#: The most that a chain's tables have room for, of rows and what leads to them (kernels_c/run/chain.h).
MOST_ROWS = (1 << 16) - 1

#: How many more pixels than there are a kernel may compute.
LOST = 1.16


@dataclass(frozen=True)
class RowPart:
    """Rows ``first`` to before ``end`` of the output of link ``link``, which are computed by one call."""

    link: int
    first: int
    end: int


def goals(chain: Chain) -> list[int]:
    """The links that must become whole, the last one first."""
    return _goals(chain.links, [link.out for link in chain.links if link.out not in chain.rings])


def _goals(links: Sequence[Link], ends: Collection[Tensor]) -> list[int]:
    return [i for i in reversed(range(len(links))) if links[i].out in ends]


def feed_of(graph: Graph) -> Feed:
    """The input of a graph as rows that the caller gives, along its first axis with more than one element.

    InvalidArgumentError for a graph with other than one input, or whose input has no rows.
    """
    inputs = [tensor for tensor in graph.inputs if tensor.data is None]
    if len(inputs) != 1:
        raise InvalidArgumentError(f"{graph.name!r} has {len(inputs)} inputs: rows can be given for one alone")
    (source,) = inputs
    if not source.nbytes or not source.shape:
        raise InvalidArgumentError(f"{source} has no rows: give it as a whole, without input_rows")
    height = source.shape[row_axis(source)]
    return Feed(source, height, height)


def layer_of(step: Step) -> Layer | None:
    """The step as a layer of a chain; None if it cannot run by rows."""
    other = step.call.rows_call
    if other is not None and step.body == (step.call,):
        return layer_of(replace(step, call=other, body=(other,)))
    call, rows = step.call, step.call.rows
    outputs = [tensor for tensor in call.outputs if isinstance(tensor, Tensor)]
    if rows is None or step.body != (call,) or len(outputs) != 1 or len(call.outputs) != 1:
        return None
    height = _height(outputs[0])
    if any(value_at(call.params, name.split(".")) % max(height, 1) for name in rows.counts):
        return None
    sources = tuple(_sources(call, outputs[0]))
    moving = [t for t in call.inputs if isinstance(t, Tensor)]
    if height < 2 or not sources or len(sources) != len(moving) or not _fits(call, sources):
        return None
    if not all(_meets(rows, height, rows_there) for _, _, rows_there in sources):
        return None
    return Layer(step, rows, height, _band(rows, height, outputs[0].shape[2]), sources)


def _meets(rows: Rows, height: int, there: int) -> bool:
    """Whether every row of an output needs a row of its source that there is, and not padding alone."""
    return rows.reach >= rows.pad and (height - 1) * rows.stride - rows.pad < there


def _fits(call: Call, sources: Sequence[Any]) -> bool:
    """Whether ``run/rows.h`` has room for the call."""
    sizes = kernels_c.params_bytes(call.kernel), len(call.inputs), len(sources)
    most = lib.TW_MAX_PARAMS, lib.TW_MAX_INPUTS, lib.TW_MAX_SOURCES
    rows = (call.rows.stride, call.rows.pad, call.rows.reach) if call.rows else ()
    return all(size <= limit for size, limit in zip(sizes, most, strict=True)) and max(rows, default=0) <= MOST_ROWS


def _band(rows: Rows, height: int, width: int) -> int:
    """How many rows to compute at once: the fewest with which hardly any of the pixels that a kernel takes are lost."""
    for band in range(1, rows.pixels):
        taken = -(-band * width // rows.pixels) * rows.pixels
        if taken <= LOST * band * width:
            return min(band, height)
    return min(rows.pixels, height)


def _height(tensor: Tensor) -> int:
    """The rows of an image [1, height, ...] of one batch; 0 if it is none."""
    return tensor.shape[1] if len(tensor.shape) == 4 and tensor.shape[0] == 1 and tensor.nbytes else 0


def _sources(call: Call, out: Tensor) -> Iterator[tuple[int, Tensor, int]]:
    """The inputs that are read by rows: all of an element-wise operator, the first under windows."""
    slides = call.rows is not None and (call.rows.window or bool(call.rows.lines))
    for place, argument in enumerate(call.inputs):
        if not isinstance(argument, Tensor):
            continue
        height = _height(argument)
        if (height and slides and place == 0) or (not slides and height == _height(out)):
            yield place, argument, height


class ChainRun:
    """One run of a chain: ``parts`` gives what is computed, in order. ``done`` counts the rows that every layer has.

    ``ends`` are the tensors that are used outside, which must become whole.
    """

    def __init__(self, layers: Sequence[Link], ends: Collection[Tensor]) -> None:
        self.layers = layers
        self.done = [0] * len(layers)
        self.producer = {layer.out: i for i, layer in enumerate(layers)}
        self.readers: dict[Tensor, list[tuple[int, int]]] = {}
        for i, layer in enumerate(layers):
            for _, tensor, height in layer.sources:
                self.readers.setdefault(tensor, []).append((i, height))
        self._goals = _goals(layers, ends)

    def parts(self) -> Iterator[RowPart]:
        """What is computed; ``done`` counts a part as soon as the next one is asked for."""
        for goal in self._goals:
            while self.done[goal] < self.layers[goal].height:
                part = self._next(goal)
                yield part
                self.done[part.link] = part.end

    def _next(self, i: int) -> RowPart:
        """What layer ``i`` computes next, or the first thing that it lacks for that."""
        while True:
            layer, first = self.layers[i], self.done[i]
            end = min(first + layer.band, layer.height)
            short = next(self._short(layer, first, end), None)
            if short is None:
                return RowPart(i, first, end)
            i = short

    def _short(self, layer: Link, first: int, end: int) -> Iterator[int]:
        """The layers of whose outputs rows are missing."""
        for _, tensor, height in layer.sources:
            producer = self.producer.get(tensor)
            if producer is not None and self.done[producer] < layer.rows.needed(first, end, height)[1]:
                yield producer

    def low(self, tensor: Tensor) -> int:
        """The first row of a tensor that a layer still needs; its height or more if none does."""
        lows = [
            self.layers[i].rows.needed(self.done[i], self.done[i] + 1, height)[0]
            for i, height in self.readers.get(tensor, ())
            if self.done[i] < self.layers[i].height
        ]
        return min(lows, default=1 << 30)
