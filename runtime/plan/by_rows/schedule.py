"""Layers by rows: in which order the layers of a chain compute rows.

A layer computes its next rows when one behind it needs them: nothing is computed in advance, so that every tensor holds
as few rows as its readers allow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.program import Chain, Layer, Program
from twinfer.runtime.rows import Feed, row_axis
from twinfer.runtime.walks import steps_of

#: What gives rows in a chain.
Link = Feed | Layer

#: The most rows of a value. The planner walks through a chain row by row: so many take it 1 to 5 seconds.
MOST_HEIGHT = 1 << 17


class RowPart(NamedTuple):
    """Rows ``first`` to before ``end`` of the output of link ``link``, which are computed by one call."""

    link: int
    first: int
    end: int


def goals(chain: Chain) -> list[int]:
    """The links that must become whole, the last one first."""
    return _goals(chain.links, [link.out for link in chain.links if link.out not in chain.rings])


def straight(chain: Chain) -> bool:
    """Whether the chain waits for nothing, and only one asks for the rows of each layer."""
    outs = {link.out: i for i, link in enumerate(chain.links)}
    asked = [outs[tensor] for link in chain.links for _, tensor, _ in link.sources if tensor in outs] + goals(chain)
    return chain.feed is None and sorted(asked) == list(range(len(chain.links)))


def _goals(links: Sequence[Link], ends: Collection[Tensor]) -> list[int]:
    return [i for i in reversed(range(len(links))) if links[i].out in ends]


def feed_of(graph: Graph, program: Program) -> Feed:
    """The input of a graph as rows that the caller gives: along its first axis with more than one element.

    If it is no image, but a copy of it is, rows are those of the image. InvalidArgumentError for a graph with other
    than one input, or whose input has no rows.
    """
    inputs = [tensor for tensor in graph.inputs if tensor.data is None]
    if len(inputs) != 1:
        raise InvalidArgumentError(f"{graph.name!r} has {len(inputs)} inputs: rows can be given for one alone")
    (source,) = inputs
    if not source.nbytes or not source.shape:
        raise InvalidArgumentError(f"{source} has no rows: give it as a whole, without input_rows")
    height = next(_heights(source, program), source.shape[row_axis(source)])
    if height > MOST_HEIGHT:
        raise InvalidArgumentError(f"{source} has {height} rows, input_rows takes {MOST_HEIGHT}: give it as a whole")
    return Feed(source, height, height)


def _heights(source: Tensor, program: Program) -> Iterator[int]:
    """The rows of the images into which a value is copied, if it is none itself."""
    for step in steps_of(program) if len(source.shape) < 4 else ():
        flat = step.call.rows is not None and step.call.rows.flat
        shapes = [out.shape for out in step.call.written] if flat and source in step.call.inputs else []
        yield from (shape[1] for shape in shapes if len(shape) == 4 and shape[0] == 1 < shape[1])


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
        """What is computed; ``done`` counts a part as soon as the next one is asked for.

        ``waiting`` are links from a goal on, each of which lacks rows of the one behind it.
        """
        for goal in self._goals:
            waiting = [goal]
            while self.done[goal] < self.layers[goal].height:
                i = waiting[-1]
                layer, first = self.layers[i], self.done[i]
                end = min(first + layer.band, layer.height)
                short = self._short(layer, first, end)
                if short is not None:
                    waiting.append(short)
                    continue
                yield RowPart(i, first, end)
                self.done[i] = end
                if len(waiting) > 1:
                    waiting.pop()

    def _short(self, layer: Link, first: int, end: int) -> int | None:
        """The first link of whose output rows are missing."""
        for _, tensor, height in layer.sources:
            producer = self.producer.get(tensor)
            if producer is not None and self.done[producer] < layer.rows.needed(first, end, height)[1]:
                return producer
        return None

    def low(self, tensor: Tensor) -> int:
        """The first row of a tensor that a layer still needs; its height or more if none does."""
        lows = [
            self.layers[i].rows.needed(self.done[i], self.done[i] + 1, height)[0]
            for i, height in self.readers.get(tensor, ())
            if self.done[i] < self.layers[i].height
        ]
        return min(lows, default=1 << 30)
