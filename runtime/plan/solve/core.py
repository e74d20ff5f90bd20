"""Exact solvers share this: the hard part of a puzzle, and the way from a first placement down to the lowest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from twinfer.runtime.plan.solve.puzzle import Puzzle

#: Offsets that need at most so many bytes; None if there are none. It may raise GaveUp.
Decide = Callable[[Puzzle, int], list[int] | None]

#: The most pairs of blocks that a puzzle for exact solvers may have, and how often they may give up.
MOST_PAIRS, MOST_GIVEUPS = 30_000, 3


class GaveUp(Exception):
    """A solver came to its limit: the height may suffice or not."""


def squeeze(puzzle: Puzzle, offsets: list[int], bound: int, decide: Decide) -> tuple[list[int], bool]:
    """Offsets of the least height that ``decide`` can find, and whether it has proven that no lower ones exist.

    No height below ``bound`` suffices. That is tried first, then heights between those that do and do not suffice.
    """
    height, impossible = puzzle.height(offsets), bound - 1
    if puzzle.pairs > MOST_PAIRS:
        return offsets, height == bound
    low, trial, giveups = bound, bound, 0
    while low < height and giveups < MOST_GIVEUPS:
        try:
            better = decide(puzzle, trial)
            impossible = trial if better is None else impossible
        except GaveUp:
            better, giveups = None, giveups + 1
        if better is None:
            low = trial + 1
        else:
            offsets, height = better, puzzle.height(better)
        trial = (low + height - 1) // 2
    return offsets, impossible == height - 1


class Core:
    """The blocks that decide whether a puzzle can be placed in ``height`` bytes: ``near`` has their neighbours.

    ``aside`` are the others, in the order in which they were taken out: each has a free place whatever the offsets of
    the blocks behind it are.
    """

    def __init__(self, puzzle: Puzzle, height: int) -> None:
        self.puzzle, self.height = puzzle, height
        self.aside = _aside(puzzle, height)
        taken = frozenset(self.aside)
        self.near: Mapping[int, Sequence[tuple[int, int, int]]] = {
            i: [each for each in others if each[0] not in taken] for i, others in puzzle.near.items() if i not in taken
        }
        #: The highest offset of each block.
        self.highest = [
            (height - size) // alignment * alignment
            for size, alignment in zip(puzzle.sizes, puzzle.alignments, strict=True)
        ]

    def completed(self, offsets: Sequence[int]) -> list[int]:
        """The offsets, with those of the blocks that were set aside."""
        complete, placed = list(offsets), set(self.near)
        for i in reversed(self.aside):
            complete[i] = self.puzzle.lowest(i, [j for j, _, _ in self.puzzle.near[i] if j in placed], complete)
            placed.add(i)
        return complete


def _aside(puzzle: Puzzle, height: int) -> list[int]:
    """The blocks that always fit below ``height``, given those that come later in the list or are not in it."""
    places = {
        i: (height - puzzle.sizes[i]) // puzzle.alignments[i] + 1 - sum(_barred(puzzle, i, near) for near in others)
        for i, others in puzzle.near.items()
    }
    aside, todo = dict[int, None](), list(places)
    while todo:
        i = todo.pop()
        if i in aside or places[i] <= 0:
            continue
        aside[i] = None
        for j, behind, before in puzzle.near[i]:
            places[j] += _barred(puzzle, j, (i, before, behind))
            todo.append(j)
    return list(aside)


def _barred(puzzle: Puzzle, i: int, near: tuple[int, int, int]) -> int:
    """The most places of block ``i`` that a neighbour can take, wherever that lies."""
    _, behind, before = near
    return max(0, -(-(behind + before - 1) // puzzle.alignments[i]))
