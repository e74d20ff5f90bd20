"""Splits of units over bins: what is proven is the cheapest of all, and a search that gives up has an answer."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinfer.runtime.plan.solve import split as search
from twinfer.runtime.plan.solve.split import Fits, split

Case = tuple[list[list[int]], list[int], list[int]]  # costs, sizes, room of the bins


@st.composite
def cases(draw: st.DrawFn, most: int = 6) -> Case:
    bins, units = draw(st.integers(1, 3)), draw(st.integers(0, most))
    numbers = st.integers(0, 20)
    costs = [draw(st.lists(numbers, min_size=bins, max_size=bins)) for _ in range(units)]
    sizes = draw(st.lists(numbers, min_size=units, max_size=units))
    return costs, sizes, draw(st.lists(st.integers(0, 60), min_size=bins, max_size=bins))


def within(sizes: list[int], room: list[int]) -> Fits:
    return lambda b, units: sum(sizes[i] for i in units) <= room[b]


def cost(costs: list[list[int]], bins: tuple[int, ...]) -> int:
    return sum(own[b] for own, b in zip(costs, bins, strict=True))


def every(costs: list[list[int]], fits: Fits, bins: int) -> list[int]:
    """The costs of all splits that fit."""
    splits = product(range(bins), repeat=len(costs))
    content = {s: [frozenset(i for i, b in enumerate(s) if b == k) for k in range(bins)] for s in splits}
    return [cost(costs, s) for s, units in content.items() if all(fits(k, each) for k, each in enumerate(units))]


@given(cases())
def test_the_cheapest_of_all(case: Case) -> None:
    costs, sizes, room = case
    fits = within(sizes, room)
    best, answer = every(costs, fits, len(room)), split(costs, sizes, fits)
    if answer is None:
        assert not best
        return
    assert answer.proven
    assert cost(costs, answer.bins) == min(best)
    assert split(costs, sizes, fits) == answer


@given(cases(most=5), st.integers(0, 12))
def test_a_search_that_gives_up(case: Case, looks: int) -> None:
    """The answer still fits, and costs no more than all units in one bin."""
    costs, sizes, room = case
    fits = within(sizes, room)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "MOST_LOOKS", looks)
        answer = split(costs, sizes, fits)
    alone = [sum(own[b] for own in costs) for b in range(len(room)) if fits(b, frozenset(range(len(costs))))]
    if answer is None:
        assert not alone
        return
    assert cost(costs, answer.bins) in every(costs, fits, len(room))
    assert all(cost(costs, answer.bins) <= each for each in alone)
    assert not answer.proven or cost(costs, answer.bins) == min(every(costs, fits, len(room)))


@pytest.mark.parametrize("dearest", range(3))
def test_moves_and_swaps_where_the_search_gives_up(dearest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From all in the dear bin: a unit moves to the other, which has room for one, and is swapped for the dearest."""
    costs, room = [[1, 9 if i == dearest else 5] for i in range(3)], [1, 3]
    monkeypatch.setattr(search._Search, "run", lambda self, order: False)
    answer = split(costs, [1, 1, 1], within([1, 1, 1], room))
    assert answer is not None
    assert (answer.bins, answer.proven) == (tuple(int(i != dearest) for i in range(3)), False)
