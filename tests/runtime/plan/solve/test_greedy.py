"""Lowest fit: every block of an order at the lowest place that is free."""

from __future__ import annotations

import random
from unittest import mock

from arenas import Problem, clear, problems
from hypothesis import given, settings
from hypothesis import strategies as st

from twinfer.runtime.plan import arena
from twinfer.runtime.plan.arena import Block
from twinfer.runtime.plan.solve import greedy


def naive_fit(problem: Problem, order: list[int]) -> list[int]:
    """Each block at the lowest multiple of its alignment that is clear of the blocks before it."""
    blocks, overlaps = problem
    offsets = [0] * len(blocks)
    for count, i in enumerate(order):
        while not all(clear(blocks, i, offsets[i], j, offsets[j], overlaps) for j in order[:count]):
            offsets[i] += blocks[i].alignment
    return offsets


@settings(deadline=None)
@given(problems(most=14), st.randoms(use_true_random=False), st.sampled_from([0, greedy._FEW]))
def test_a_block_goes_to_the_lowest_place_that_is_free(problem: Problem, rng: random.Random, few: int) -> None:
    order = rng.sample(range(len(problem[0])), len(problem[0]))
    with mock.patch.object(greedy, "_FEW", few):  # 0: by the timeline, as where there are many blocks
        assert greedy.lowest_fit(arena.puzzle_of(*problem))(order) == naive_fit(problem, order)


def test_the_highest_block_moves_to_the_front() -> None:
    """Every order that is tried first needs a byte more than the third that follows from them; enough is enough."""
    puzzle = arena.puzzle_of([Block(6, 3, 5), Block(3, 2, 2), Block(5, 1, 1), Block(5, 1, 2), Block(2, 2, 3)], ())
    first = greedy.place(puzzle, 10)
    assert [puzzle.height(offsets) for offsets in (first, greedy.improve(puzzle, first, 10))] == [11, 10]
    assert greedy.improve(puzzle, first, 11) is first
