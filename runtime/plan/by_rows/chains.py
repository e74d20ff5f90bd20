"""Which layers run by rows: partitions of a program into chains and single steps.

What every candidate takes is known from a run through its rows (``candidates.py``). The least peak is that of the
partition whose most expensive part is cheapest. Of all partitions within a peak, the one is taken that should take the
fewest instructions. Both are found by dynamic programming.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import inf
from typing import NamedTuple

from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.by_rows.candidates import PROGRESS_BYTES, Candidate, Candidates, Scratch, height_of
from twinfer.runtime.plan.by_rows.ring_sizes import Over
from twinfer.runtime.plan.lifetimes import Lifetimes
from twinfer.runtime.program import Chain, Layer, Program, Ring, Step
from twinfer.runtime.rows import Feed
from twinfer.runtime.target import Target


class Chained(NamedTuple):
    """A program with its chains. ``extra``: about how many more instructions it takes than without them.

    ``over`` says which outputs may lie over an input.
    """

    program: Program
    extra: float
    over: tuple[Over, ...] = ()


class Partitions:
    """The partitions of a straight program; ``peaks`` are the bytes that the largest part of one can need, rising.

    ``ends`` are the graph's outputs.
    """

    def __init__(self, program: Program, lifetimes: Lifetimes, ends: Collection[Tensor], target: Target) -> None:
        self._candidates = Candidates(program, lifetimes, ends, target)
        self._every = [list(self._candidates.of(i)) for i in range(len(program))]
        least = self._least_peak()
        self.peaks = sorted({least, *(each.cost for every in self._every for each in every if each.cost > least)})

    def _least_peak(self) -> int:
        best = [0] + [1 << 62] * len(self._every)
        for i, every in enumerate(self._every):
            for candidate in every:
                best[candidate.end] = min(best[candidate.end], max(best[i], candidate.cost))
        return best[-1]

    def within(self, peak: int, *, wide: bool = True) -> Chained:
        """The cheapest partition of all whose parts need no more than ``peak``, which is in ``peaks``.

        Chains that are not ``wide`` compute as few rows at once as they may.
        """
        best: list[tuple[float, list[Candidate]]] = [(0, [])] + [(inf, [])] * len(self._every)
        for i in range(len(self._every)):
            before, parts = best[i]
            for candidate in self._useful(i, peak, wide=wide) if before < inf else ():
                if before + candidate.extra < best[candidate.end][0]:
                    best[candidate.end] = (before + candidate.extra, [*parts, candidate])
        extra, parts = best[-1]
        return Chained(tuple(map(self._part, parts)), extra, tuple(over for part in parts for over in part.over))

    def _useful(self, i: int, peak: int, *, wide: bool) -> Iterator[Candidate]:
        """What fits from place ``i`` on; chains only around a place that does not fit by itself."""
        for candidate in self._every[i]:
            if candidate.cost > peak:
                continue
            if not candidate.links:
                yield candidate
            elif not self._all_fit(candidate, peak):
                yield self._candidates.widest(candidate, peak) if wide else candidate

    def _all_fit(self, chain: Candidate, peak: int) -> bool:
        """Whether the steps of a chain fit one by one."""
        alone = [self._every[place][0] for place in range(chain.first, chain.end)]
        return all(not each.links and each.cost <= peak for each in alone)

    def _part(self, candidate: Candidate) -> Step | Chain:
        """A candidate as a part of a program; the layers of a chain share their scratch memory."""
        alone = self._candidates.parts[candidate.first]
        if candidate.kept is None and isinstance(alone, Step):
            return alone
        return chain_of(candidate)


def chain_of(candidate: Candidate) -> Chain:
    """A candidate as a chain."""
    links, rooms = candidate.links, candidate.kept.rooms if candidate.kept else {}
    scratch = Scratch(links)
    rings = {
        tensor: Ring(_ring(tensor, room.capacity, height_of(links, tensor)), room.capacity, room.kept)
        for tensor, room in rooms.items()
    }
    layers = tuple(scratch.of(link) for link in links if isinstance(link, Layer))
    feed = next((link for link in links if isinstance(link, Feed)), None)
    if feed and candidate.kept:
        feed = Feed(feed.out, feed.height, candidate.kept.computed[0])
    return Chain(layers, rings, feed=feed, progress=progress_of(len(links)) if feed else None, views=candidate.views)


def progress_of(links: int) -> Tensor:
    """The memory in which a chain that waits for rows keeps how far its links are."""
    return Tensor("progress of the rows", "INT32", (links * PROGRESS_BYTES // 4,))


def _ring(tensor: Tensor, rows: int, height: int) -> Tensor:
    return Tensor(f"rows of {tensor.name}", tensor.type, (rows, tensor.size // height))
