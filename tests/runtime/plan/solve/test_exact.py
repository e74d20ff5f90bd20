"""The search for a placement of at most so many bytes: it finds one, or there is none."""

from __future__ import annotations

import pytest
from arenas import Problem, faulty, least_height, problems
from hypothesis import given, settings

from twinfer.runtime.plan import arena
from twinfer.runtime.plan.arena import Block
from twinfer.runtime.plan.solve import exact
from twinfer.runtime.plan.solve.core import Core, GaveUp, squeeze
from twinfer.runtime.plan.solve.puzzle import Puzzle


@settings(deadline=None, max_examples=300)
@given(problems(most=5, size=5, alignments=(1, 1, 2, 4)))
def test_a_height_suffices_or_not(problem: Problem) -> None:
    """Also heights below every bound: from nothing to more than is needed."""
    blocks, overlaps = problem
    puzzle, least = arena.puzzle_of(blocks, overlaps), least_height(blocks, overlaps)
    for height in range(least + 3):
        offsets = exact.decide(puzzle, height)
        assert (offsets is None) == (height < least)
        if offsets is not None:
            assert arena.height(blocks, offsets) <= height
            assert faulty(blocks, offsets, overlaps) == []


@settings(deadline=None)
@given(problems())
def test_blocks_that_are_set_aside_always_fit(problem: Problem) -> None:
    """Wherever a greedy placement has put the core, the others find a place below the height."""
    blocks, overlaps = problem
    placed = arena.place(blocks, overlaps).offsets
    core = Core(arena.puzzle_of(blocks, overlaps), arena.height(blocks, placed))
    offsets = core.completed([at if i in core.near else 0 for i, at in enumerate(placed)])
    assert faulty(blocks, offsets, overlaps) == []
    assert arena.height(blocks, offsets) <= arena.height(blocks, placed)


def test_blocks_far_from_the_peak_are_set_aside() -> None:
    """Of a chain only the blocks at the two largest steps are searched."""
    sizes = (1, 2, 30, 31, 30, 2, 1)
    puzzle = arena.puzzle_of([Block(size, i, i + 1) for i, size in enumerate(sizes)], ())
    assert list(Core(puzzle, 61).near) == [2, 3, 4]
    assert list(Core(puzzle, 200).near) == []


@pytest.mark.parametrize("enough", range(5, 12))
def test_heights_are_halved_down_to_the_least(enough: int) -> None:
    """The bound is tried first. Where nothing is refuted, nothing is proven above it, and three are enough."""
    puzzle, tried = Puzzle([1], [1], [(0, 0)], {}), list[int]()

    def decide(puzzle: Puzzle, height: int) -> list[int] | None:
        tried.append(height)
        return [height - 1] if height >= enough else None

    assert squeeze(puzzle, [10], 5, decide) == ([enough - 1], True)
    assert tried[0] == 5
    assert len(tried) <= 5
    tried.clear()

    def unsure(puzzle: Puzzle, height: int) -> list[int] | None:
        if offsets := decide(puzzle, height):
            return offsets
        raise GaveUp

    assert squeeze(puzzle, [10], 5, unsure) == ([enough - 1 if enough < 10 else 10], enough == 5)
    assert len(tried) == {5: 1, 6: 3, 7: 4, 8: 4, 9: 3, 10: 3, 11: 3}[enough]


def test_what_is_refuted_above_a_height_counts_for_it() -> None:
    """At 5 it gives up, at 7 and above it knows that there is none."""

    def decide(puzzle: Puzzle, height: int) -> None:
        if height == 5:
            raise GaveUp

    assert squeeze(Puzzle([1], [1], [(0, 0)], {}), [11], 5, decide) == ([11], True)
