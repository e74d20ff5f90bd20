"""Greedy placement: one block after the other, each at the lowest place that is free. The best of several orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from math import gcd

from twinfer.runtime.plan.solve.puzzle import Puzzle, aligned
from twinfer.runtime.plan.solve.timeline import Timeline, lives

#: Offsets of blocks that are placed in a given order.
Fit = Callable[[Sequence[int]], list[int]]


#: The pairs a block up to which a look at every pair takes less time than the timeline.
_FEW = 12


def lowest_fit(puzzle: Puzzle) -> Fit:
    """A function that places the blocks in a given order, each at the lowest offset that is free over its life.

    Blocks that may lie nearer to another than by its size are kept apart from the timeline, which has only bytes; so
    are all blocks where each meets few others: it gives the same and takes less time.
    """
    spans = lives(puzzle.spans)
    few = puzzle.pairs <= _FEW * len(spans)
    special = frozenset(range(len(puzzle.sizes)) if few else chain.from_iterable(puzzle.gaps))
    near = puzzle.neighbours(special)
    grain = gcd(*puzzle.alignments)  # nothing begins in the padding behind a block

    def fit(order: Sequence[int]) -> list[int]:
        offsets, timeline, placed = [0] * len(spans), Timeline(), set[int]()
        for i in order:
            beside, size, at, free = [j for j in near[i] if j in placed], puzzle.sizes[i], -1, 0
            while at != free:
                at = timeline.lowest(spans[i], size, puzzle.alignments[i], free)
                free = puzzle.lowest(i, beside, offsets, at) if beside else at
            offsets[i] = at
            if i in special:
                placed.add(i)
            else:
                timeline.take(spans[i], at, aligned(at + size, grain))
        return offsets

    return fit


#: Orders to try, by size, first and last step: by size (TFLM's greedy planner), by size times life, by life, by first
#: use, by last use.
_ORDERS: tuple[Callable[[int, int, int], tuple[int, ...]], ...] = (
    lambda size, first, last: (-size, first),
    lambda size, first, last: (-size * (last - first + 1), -size),
    lambda size, first, last: (first - last, -size),
    lambda size, first, last: (first, -size),
    lambda size, first, last: (-last, -size),
)


#: The most pairs of blocks that ``improve`` may compare: about a second.
_MOST_PAIRS = 10_000_000


def place(puzzle: Puzzle, bound: int) -> list[int]:
    """Offsets of the blocks: lowest fit over several orders, the best of them, or the first that meets the bound."""
    fit = lowest_fit(puzzle)
    best: list[int] | None = None
    for key in _ORDERS:
        order = sorted(range(len(puzzle.sizes)), key=lambda i, key=key: (*key(puzzle.sizes[i], *puzzle.spans[i]), i))  # type: ignore[misc]
        offsets = fit(order)
        if best is None or puzzle.height(offsets) < puzzle.height(best):
            best = offsets
        if puzzle.height(best) <= bound:
            break
    return best or []


def improve(puzzle: Puzzle, offsets: list[int], bound: int) -> list[int]:
    """These offsets or better ones: the block that ends highest is placed first, then the others as they lie.

    That again, up to 200 times (iterated greedy), fewer with many blocks, or until the bound is met.
    """
    fit, best = lowest_fit(puzzle), offsets
    order = sorted(range(len(offsets)), key=lambda i: (offsets[i], i))
    seen = {tuple(order)}
    for _ in range(min(200, _MOST_PAIRS // max(1, len(order)) ** 2)):
        top = max(order, key=lambda i: (offsets[i] + puzzle.sizes[i], i))
        order = [top, *(i for i in order if i != top)]
        if tuple(order) in seen:
            break
        seen.add(tuple(order))
        offsets = fit(order)
        if puzzle.height(offsets) < puzzle.height(best):
            best = offsets
        if puzzle.height(best) <= bound:
            break
    return best
