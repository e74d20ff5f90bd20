"""Where every block of the arena lies: ``place`` solves, ``check`` proves, ``lower_bound`` is the least needed."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from twinfer.runtime.plan.timeline import Timeline, lives


@dataclass(frozen=True)
class Block:
    """``size`` bytes that must keep their value from step ``first`` to step ``last``, both included."""

    size: int
    first: int
    last: int


def aligned(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


def height(blocks: Sequence[Block], offsets: Sequence[int]) -> int:
    """Bytes of arena that the placement needs."""
    return max((offset + block.size for block, offset in zip(blocks, offsets, strict=True)), default=0)


def lower_bound(blocks: Sequence[Block], alignment: int = 1) -> int:
    """The largest sum of live bytes over all steps: no placement can need less.

    With an alignment every live block but the highest takes whole multiples of it.
    """
    change: defaultdict[int, int] = defaultdict(int)
    for block in blocks:
        change[block.first] += aligned(block.size, alignment)
        change[block.last + 1] -= aligned(block.size, alignment)
    most = max(accumulate(change[step] for step in sorted(change)), default=0)
    return most - max((aligned(block.size, alignment) - block.size for block in blocks), default=0)


#: Offsets of blocks that are placed in a given order.
Fit = Callable[[Sequence[int]], list[int]]


def lowest_fit(blocks: Sequence[Block], alignment: int) -> Fit:
    """A function that places the blocks in a given order, each at the lowest offset that is free over its life."""
    spans = lives([(block.first, block.last) for block in blocks])

    def fit(order: Sequence[int]) -> list[int]:
        offsets, timeline = [0] * len(blocks), Timeline()
        for i in order:
            offsets[i] = timeline.lowest(spans[i], blocks[i].size)
            timeline.take(spans[i], offsets[i], aligned(offsets[i] + blocks[i].size, alignment))
        return offsets

    return fit


#: Orders to try: by size (TFLM's greedy planner), by size times life, by life, by first use.
_ORDERS: tuple[Callable[[Block], tuple[int, ...]], ...] = (
    lambda b: (-b.size, b.first),
    lambda b: (-b.size * (b.last - b.first + 1), -b.size),
    lambda b: (b.first - b.last, -b.size),
    lambda b: (b.first, -b.size),
    lambda b: (-b.last, -b.size),
)


#: The most pairs of blocks that ``_improve`` may compare: about a second.
_MOST_PAIRS = 10_000_000


def place(blocks: Sequence[Block], alignment: int = 16) -> list[int]:
    """Offsets of the blocks, multiples of ``alignment``; deterministic.

    Greedy lowest fit over several orders, of which the best is kept. Where that misses the lower bound, the block that
    ends highest moves to the front of the order, up to 200 times (iterated greedy), fewer with many blocks.
    """
    bound = max(lower_bound(blocks), lower_bound(blocks, alignment))
    fit = lowest_fit(blocks, alignment)
    best: list[int] | None = None
    best_order: list[int] = []
    for key in _ORDERS:
        order = sorted(range(len(blocks)), key=lambda i, key=key: (*key(blocks[i]), i))  # type: ignore[misc]
        offsets = fit(order)
        if best is None or height(blocks, offsets) < height(blocks, best):
            best, best_order = offsets, order
        if height(blocks, best) <= bound:
            return best
    return _improve(blocks, fit, best or [], best_order, bound)


def _improve(blocks: Sequence[Block], fit: Fit, best: list[int], order: list[int], bound: int) -> list[int]:
    seen = {tuple(order)}
    offsets = best
    for _ in range(min(200, _MOST_PAIRS // len(blocks) ** 2) if blocks else 0):
        top = max(order, key=lambda i: (offsets[i] + blocks[i].size, i))
        order = [top, *(i for i in order if i != top)]
        if tuple(order) in seen:
            break
        seen.add(tuple(order))
        offsets = fit(order)
        if height(blocks, offsets) < height(blocks, best):
            best = offsets
        if height(blocks, best) <= bound:
            break
    return best


def check(blocks: Sequence[Block], offsets: Sequence[int], alignment: int = 16) -> list[str]:
    """What is wrong with a placement, one line per fault or pair that overlaps. Shares no code with ``place``.

    Step by step it keeps the live blocks in the order of their offsets, and looks up there each block that begins.
    """
    faults = [
        f"block {i} at {at}: not a multiple of {alignment}" for i, at in enumerate(offsets) if at < 0 or at % alignment
    ]
    ends = [at + block.size for at, block in zip(offsets, blocks, strict=True)]
    for j, i in sorted(_overlaps(blocks, offsets, ends)):
        others = f"[{offsets[j]}, {ends[j]})"
        faults.append(f"blocks {j} {others} and {i} [{offsets[i]}, {ends[i]}) overlap while both live")
    return faults


def _overlaps(blocks: Sequence[Block], offsets: Sequence[int], ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Pairs of blocks that share a byte at a step. ``apart``: the live blocks that share none; ``odd``: the others."""
    apart: list[tuple[int, int, int]] = []
    odd: set[int] = set()
    events = [(block.first, 1, i) for i, block in enumerate(blocks) if block.size]
    events += [(block.last + 1, 0, i) for i, block in enumerate(blocks) if block.size]
    for _, begins, i in sorted(events):
        entry = (offsets[i], ends[i], i)
        if not begins:
            if i in odd:
                odd.remove(i)
            else:
                del apart[bisect_left(apart, entry)]
            continue
        near = apart[max(0, bisect_left(apart, entry) - 1) : bisect_left(apart, (ends[i], ends[i], 0))]
        others = [j for _, end, j in near if end > offsets[i]]
        others += [j for j in odd if offsets[j] < ends[i] and offsets[i] < ends[j]]
        yield from ((min(i, j), max(i, j)) for j in others)
        if others:
            odd.add(i)
        else:
            insort(apart, entry)
