"""CP-SAT answers as the search of our own does, and goes on where that gives up."""

from __future__ import annotations

import pytest
from arenas import Problem, faulty, problems
from hypothesis import given, settings
from needs import needs

from twinfer.runtime.plan import arena
from twinfer.runtime.plan.arena import Block
from twinfer.runtime.plan.solve import exact, sat
from twinfer.runtime.plan.solve.core import GaveUp

needs("ortools")


@settings(deadline=None, max_examples=30)
@given(problems(most=8))
def test_both_solvers_agree(problem: Problem) -> None:
    blocks, overlaps = problem
    puzzle, bound = arena.puzzle_of(blocks, overlaps), arena.lower_bound(blocks, overlaps)
    for height in range(max(0, bound - 1), bound + 3):
        ours, theirs = exact.decide(puzzle, height), sat.decide(puzzle, height)
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            assert arena.height(blocks, theirs) <= height
            assert faulty(blocks, theirs, overlaps) == []


def test_it_proves_what_our_search_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "MOST_LOOKS", 0)
    blocks = [Block(5, 1, 1), Block(6, 0, 2), Block(4, 2, 4), Block(3, 1, 3), Block(3, 2, 3)]
    assert not arena.place(blocks).proven
    placed = arena.place(blocks, exact=True)
    assert (arena.height(blocks, placed.offsets), placed.proven) == (16, True)
    assert arena.check(blocks, placed.offsets) == []
    monkeypatch.setattr(sat, "MOST_WORK", 0.0)
    with pytest.raises(GaveUp):
        sat.decide(arena.puzzle_of(blocks, ()), 16)
    assert not arena.place(blocks, exact=True).proven
