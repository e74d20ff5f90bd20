"""Where every block of the arena lies: ``place`` solves, ``check`` proves, ``lower_bound`` says how good it can get."""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np


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


def _lowest_fit(blocks: Sequence[Block], order: Sequence[int], alignment: int) -> list[int]:
    """Place blocks in the given order, each at the lowest aligned offset that is free over its life."""
    offsets = [0] * len(blocks)
    placed: list[tuple[int, int, int, int]] = []  # by offset: where a block begins, the next may begin; its life
    for i in order:
        block, offset = blocks[i], 0
        for start, end, first, last in placed:
            if first <= block.last and block.first <= last:
                if offset + block.size <= start:
                    break
                offset = max(offset, end)
        offsets[i] = offset
        insort(placed, (offset, aligned(offset + block.size, alignment), block.first, block.last))
    return offsets


#: Orders to try: by size (TFLM's greedy planner), by size times life, by life, by first use.
_ORDERS: tuple[Callable[[Block], tuple[int, ...]], ...] = (
    lambda b: (-b.size, b.first),
    lambda b: (-b.size * (b.last - b.first + 1), -b.size),
    lambda b: (b.first - b.last, -b.size),
    lambda b: (b.first, -b.size),
    lambda b: (-b.last, -b.size),
)


#: Pairs of blocks that improving may compare: about a second.
_MOST_PAIRS = 10_000_000


def place(blocks: Sequence[Block], alignment: int = 16) -> list[int]:
    """Offsets of the blocks, multiples of ``alignment``; deterministic.

    Greedy lowest fit over several orders, the best kept; where that misses the lower bound, blocks that end highest
    are moved to the front of the order, up to 200 times (iterated greedy), less often where there are many blocks.
    """
    bound = max(lower_bound(blocks), lower_bound(blocks, alignment))
    best: list[int] | None = None
    best_order: list[int] = []
    for key in _ORDERS:
        order = sorted(range(len(blocks)), key=lambda i, key=key: (*key(blocks[i]), i))  # type: ignore[misc]
        offsets = _lowest_fit(blocks, order, alignment)
        if best is None or height(blocks, offsets) < height(blocks, best):
            best, best_order = offsets, order
        if height(blocks, best) <= bound:
            return best
    return _improve(blocks, best or [], best_order, bound, alignment)


def _improve(blocks: Sequence[Block], best: list[int], order: list[int], bound: int, alignment: int) -> list[int]:
    seen = {tuple(order)}
    offsets = best
    for _ in range(min(200, _MOST_PAIRS // len(blocks) ** 2) if blocks else 0):
        top = max(order, key=lambda i: (offsets[i] + blocks[i].size, i))
        order = [top, *(i for i in order if i != top)]
        if tuple(order) in seen:
            break
        seen.add(tuple(order))
        offsets = _lowest_fit(blocks, order, alignment)
        if height(blocks, offsets) < height(blocks, best):
            best = offsets
        if height(blocks, best) <= bound:
            break
    return best


def in_a_row(blocks: Sequence[Block], offsets: Sequence[int], lasting: Sequence[int], alignment: int = 16) -> list[int]:
    """The placement with the blocks at positions ``lasting``, which live all the time, one behind the other.

    It needs no byte more. Nothing shares their memory, so they can be taken out and all above them moved down; then
    they go to the bottom or, if the highest block was one of them, perhaps to the top, that with most padding last.
    """
    sizes = {i: aligned(blocks[i].size, alignment) for i in lasting}
    row = sorted(lasting, key=lambda i: sizes[i] - blocks[i].size)
    starts = dict(zip(row, accumulate((sizes[i] for i in row), initial=0), strict=False))
    down = [at - sum(size for i, size in sizes.items() if offsets[i] < at) for at in offsets]
    top = max((aligned(at + b.size, alignment) for i, (at, b) in enumerate(zip(down, blocks, strict=True))
               if i not in sizes), default=0)  # fmt: skip
    bottom = [starts.get(i, at + sum(sizes.values())) for i, at in enumerate(down)]
    raised = [top + starts[i] if i in sizes else at for i, at in enumerate(down)]
    return min(bottom, raised, key=lambda found: height(blocks, found))


def check(blocks: Sequence[Block], offsets: Sequence[int], alignment: int = 16) -> list[str]:
    """What is wrong with a placement, one line a fault; every pair is compared, nothing is shared with ``place``."""
    faults = []
    size, first, last = (np.array([getattr(b, name) for b in blocks]) for name in ("size", "first", "last"))
    start = np.array(offsets)
    end = start + size
    for i, (a, at) in enumerate(zip(blocks, offsets, strict=True)):
        if at < 0 or at % alignment:
            faults.append(f"block {i} at {at}: not a multiple of {alignment}")
        alive_together = ~((a.last < first[:i]) | (last[:i] < a.first))
        apart = (at + a.size <= start[:i]) | (end[:i] <= at)
        for j in np.flatnonzero(alive_together & ~apart & (size[:i] > 0) & (a.size > 0)):
            others = f"[{start[j]}, {end[j]})"
            faults.append(f"blocks {j} {others} and {i} [{at}, {at + a.size}) overlap while both live")
    return faults
