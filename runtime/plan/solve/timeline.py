"""Which bytes are taken at which steps: finds the lowest free place over a life without a look at every block."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import cycle

from twinfer.runtime.plan.solve.puzzle import aligned


class Ranges:
    """A set of bytes, as ranges in order; no two touch."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        """Take the bytes from ``start`` up to ``end``; some may be taken already."""
        i, j = bisect_left(self._ends, start), bisect_right(self._starts, end)
        if i < j:
            start, end = min(start, self._starts[i]), max(end, self._ends[j - 1])
        self._starts[i:j], self._ends[i:j] = [start], [end]

    def free(self, at: int, size: int, alignment: int) -> int:
        """The lowest multiple of ``alignment`` from ``at`` on where ``size`` bytes are free; ``at`` is a multiple."""
        i = bisect_right(self._ends, at)
        while i < len(self._starts) and self._starts[i] < at + size:
            at = max(at, aligned(self._ends[i], alignment))
            i += 1
        return at


class Life:
    """The nodes of a tree over the steps that make up a life, and all the nodes above them.

    Nodes are numbered as in a heap: 1 is all steps, 2n and 2n + 1 are the halves of n, ``width`` + i is step i alone.
    """

    def __init__(self, first: int, last: int, width: int) -> None:
        self.parts = tuple(_parts(first + width, last + width + 1))
        chains = {part >> up for part in self.parts for up in range(part.bit_length())}
        self.above = tuple(sorted(chains.difference(self.parts)))


def _parts(left: int, right: int) -> Iterator[int]:
    while left < right:
        if left % 2:
            yield left
        if right % 2:
            yield right - 1
        left, right = (left + 1) // 2, right // 2


class Timeline:
    """The bytes taken by blocks, each over its ``Life``."""

    def __init__(self) -> None:
        self._whole: defaultdict[int, Ranges] = defaultdict(Ranges)  # of the blocks that live all through a node
        self._some: defaultdict[int, Ranges] = defaultdict(Ranges)  # of those that live in a part of it at least

    def take(self, life: Life, start: int, end: int) -> None:
        """Bytes from ``start`` up to ``end`` are in use over a life."""
        for node in life.parts:
            self._whole[node].add(start, end)
        for node in (*life.parts, *life.above):
            self._some[node].add(start, end)

    def lowest(self, life: Life, size: int, alignment: int, at: int = 0) -> int:
        """The lowest multiple of ``alignment`` from ``at`` (one itself) where ``size`` bytes are free over a life."""
        if not self._some:
            return at
        nodes = [self._some.get(node) for node in life.parts] + [self._whole.get(node) for node in life.above]
        taken = [ranges for ranges in nodes if ranges is not None]
        agreed = 0
        for ranges in cycle(taken):
            place = ranges.free(at, size, alignment)
            at, agreed = place, agreed + 1 if place == at else 1
            if agreed == len(taken):
                break
        return at


def lives(spans: Sequence[tuple[int, int]]) -> list[Life]:
    """A ``Life`` for each pair of first and last step; only steps at which a span begins count."""
    begins = sorted({first for first, _ in spans})
    width = 1 << (len(begins) - 1).bit_length()
    return [Life(bisect_left(begins, first), bisect_right(begins, last) - 1, width) for first, last in spans]
