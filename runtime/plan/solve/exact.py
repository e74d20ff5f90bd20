"""Exact placement: a search over which of two blocks lies lower, which proves that a height suffices or does not.

Of two blocks that meet, one begins behind the other. Each order that is decided moves the lowest offset of one up and
the highest of the other down; where a pair has only one order left, that is decided, too (disjunctive graphs, Roy and
Sussmann 1964; immediate selection, Carlier and Pinson 1989). The search ends when all lowest offsets fit together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from twinfer.runtime.plan.solve.core import Core, GaveUp
from twinfer.runtime.plan.solve.puzzle import Puzzle, aligned

#: The most often that a search looks at a pair of blocks: a quarter of a second.
MOST_LOOKS = 1_000_000


def decide(puzzle: Puzzle, height: int) -> list[int] | None:
    """Offsets that need at most ``height`` bytes; None if there are none. GaveUp beyond ``MOST_LOOKS``."""
    core = Core(puzzle, height)
    offsets = _Search(core).offsets()
    return None if offsets is None else core.completed(offsets)


class _State(NamedTuple):
    """The lowest and the highest offset of each block, and the orders that are decided: (low, high)."""

    lowest: list[int]
    highest: list[int]
    orders: frozenset[tuple[int, int]]

    def after(self, order: tuple[int, int]) -> _State:
        return _State(self.lowest[:], self.highest[:], self.orders | {order})


class _Search:
    def __init__(self, core: Core) -> None:
        self.near, self.highest, self.alignments = core.near, core.highest, core.puzzle.alignments
        self.pairs = [(i, *each) for i, others in core.near.items() for each in others if i < each[0]]
        self.looks = MOST_LOOKS

    def offsets(self) -> list[int] | None:
        """Depth first, without recursion."""
        todo = [(_State([0] * len(self.highest), self.highest[:], frozenset()), dict.fromkeys(self.near))]
        while todo:
            state, changed = todo.pop()
            if not self.narrow(state, changed):
                continue
            clash = min(self.clashes(state), default=None)
            if clash is None:
                return state.lowest
            *_, i, j, first = clash
            for order in ((j, i), (i, j)) if first else ((i, j), (j, i)):
                todo.append((state.after(order), dict.fromkeys(order)))
        return None

    def narrow(self, state: _State, changed: dict[int, None]) -> bool:
        """Draws the conclusions from blocks that ``changed``; False if a pair has no order left."""
        lowest, highest, alignments = state.lowest, state.highest, self.alignments
        while changed:
            i, _ = changed.popitem()
            self.look(len(self.near[i]))
            for j, behind, before in self.near[i]:
                upward = lowest[i] + behind <= highest[j] and (j, i) not in state.orders
                downward = lowest[j] + before <= highest[i] and (i, j) not in state.orders
                if upward and downward:
                    continue
                if not upward and not downward:
                    return False
                low, high, gap = (i, j, behind) if upward else (j, i, before)
                at, top = lowest[low] + gap, highest[high] - gap
                if at > lowest[high]:
                    lowest[high] = aligned(at, alignments[high])
                    changed[high] = None
                if top < highest[low]:
                    highest[low] = top // alignments[low] * alignments[low]
                    changed[low] = None
        return all(lowest[i] <= highest[i] for i in self.near)

    def clashes(self, state: _State) -> Iterator[tuple[int, int, int, int, bool]]:
        """The pairs that overlap at their lowest offsets, with their room: the least room is the most urgent.

        Room in both orders, in the tighter one, the blocks, and whether block i below block j leaves more room.
        """
        lowest, highest = state.lowest, state.highest
        self.look(len(self.pairs))
        for i, j, behind, before in self.pairs:
            if lowest[i] + behind > lowest[j] and lowest[j] + before > lowest[i]:
                up, down = highest[j] - lowest[i] - behind, highest[i] - lowest[j] - before
                yield up + down, min(up, down), i, j, up >= down

    def look(self, pairs: int) -> None:
        self.looks -= pairs
        if self.looks < 0:
            raise GaveUp
