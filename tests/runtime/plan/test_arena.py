"""The arena planner: no overlap, never below the lower bound, and optimal where the optimum is known."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinfer.runtime.plan import arena
from twinfer.runtime.plan.arena import Block

lists_of_blocks = st.lists(
    st.builds(lambda size, first, length: Block(size, first, first + length), st.integers(0, 300), st.integers(0, 12),
              st.integers(0, 6)),
    max_size=14,
)  # fmt: skip


def naive_bound(given_blocks: list[Block]) -> int:
    steps = range(min((b.first for b in given_blocks), default=0), max((b.last for b in given_blocks), default=0) + 1)
    return max(sum(b.size for b in given_blocks if b.first <= step <= b.last) for step in steps)


@given(lists_of_blocks, st.sampled_from([1, 4, 16, 64]))
def test_placement_is_sound(blocks: list[Block], alignment: int) -> None:
    places = arena.place(blocks, alignment)
    assert arena.check(blocks, places, alignment) == []
    assert arena.lower_bound(blocks) == naive_bound(blocks)
    assert arena.height(blocks, places) >= arena.lower_bound(blocks)
    assert places == arena.place(blocks, alignment)


@given(st.lists(st.integers(1, 200), max_size=8))
def test_chain_reaches_the_bound(sizes: list[int]) -> None:
    """Only the next step reads each tensor, so two live at a time, as in every plain net."""
    chain = [Block(size * 16, i, i + 1) for i, size in enumerate(sizes)]
    assert arena.height(chain, arena.place(chain)) == arena.lower_bound(chain)


def test_small_problems_are_solved_as_well_as_by_trying_every_order() -> None:
    sizes, lives = (1, 2, 3), ((0, 1), (1, 2), (0, 2), (2, 3))
    for chosen in itertools.product(sizes, repeat=len(lives)):
        blocks = [Block(16 * size, *life) for size, life in zip(chosen, lives, strict=True)]
        fit, orders = arena.lowest_fit(blocks, 16), itertools.permutations(range(len(blocks)))
        best = min(arena.height(blocks, fit(order)) for order in orders)
        assert arena.height(blocks, arena.place(blocks)) == best


@pytest.mark.parametrize("alignment", [4, 16, 64])
def test_sizes_that_are_no_multiples(alignment: int) -> None:
    """As good as the best order; the bound for an alignment never exceeds the optimum."""
    lives = ((0, 1), (1, 2), (0, 2), (2, 3))
    for chosen in itertools.product((1, alignment, alignment + 1, 2 * alignment - 1), repeat=len(lives)):
        blocks = [Block(size, *life) for size, life in zip(chosen, lives, strict=True)]
        fit, orders = arena.lowest_fit(blocks, alignment), itertools.permutations(range(len(blocks)))
        best = min(arena.height(blocks, fit(order)) for order in orders)
        assert arena.height(blocks, arena.place(blocks, alignment)) == best
        assert naive_bound(blocks) <= best
        assert arena.lower_bound(blocks, alignment) <= best


@pytest.mark.parametrize(
    ("sizes", "bound"), [((17, 17), 49), ((17, 32), 49), ((1, 1, 1), 33), ((16, 16), 32), ((5, 0), 5)]
)
def test_the_bound_of_blocks_that_live_together(sizes: tuple[int, ...], bound: int) -> None:
    """All but the highest block take whole multiples of 16; the highest is the one that saves most by that."""
    together = [Block(size, 0, 0) for size in sizes]
    assert arena.lower_bound(together, 16) == bound == arena.height(together, arena.place(together))


@pytest.mark.parametrize(
    ("offsets", "fault"),
    [((0, 0), "blocks 0 [0, 32) and 1 [0, 16) overlap"), ((0, 31), "not a multiple"), ((-16, 32), "not a multiple")],
)
def test_check_finds_faults(offsets: tuple[int, int], fault: str) -> None:
    assert any(fault in line for line in arena.check([Block(32, 0, 2), Block(16, 2, 3)], offsets))


def meet(a: Block, at: int, b: Block, other: int) -> bool:
    """Whether two blocks share a byte at some step."""
    together = max(a.first, b.first) <= min(a.last, b.last)
    return together and max(at, other) < min(at + a.size, other + b.size)


def naive_faults(blocks: list[Block], offsets: list[int]) -> list[str]:
    """Every pair of blocks compared."""
    spans = [f"[{at}, {at + block.size})" for block, at in zip(blocks, offsets, strict=True)]
    pairs = itertools.combinations(range(len(blocks)), 2)
    return sorted(
        f"blocks {j} {spans[j]} and {i} {spans[i]} overlap while both live"
        for j, i in pairs
        if meet(blocks[j], offsets[j], blocks[i], offsets[i])
    )


@given(lists_of_blocks, st.data())
def test_check_finds_what_comparing_every_pair_finds(blocks: list[Block], data: st.DataObject) -> None:
    """Over offsets at random, most of them wrong, and over a good placement with one block moved."""
    anywhere = st.integers(-40, 700)
    wild = data.draw(st.lists(anywhere, min_size=len(blocks), max_size=len(blocks)))
    assert sorted(line for line in arena.check(blocks, wild, 1) if "overlap" in line) == naive_faults(blocks, wild)
    moved = arena.place(blocks, 1)
    for _ in blocks[:1]:
        moved[data.draw(st.integers(0, len(blocks) - 1))] = data.draw(st.integers(0, 700))
    assert sorted(arena.check(blocks, moved, 1)) == naive_faults(blocks, moved)


def naive_fit(blocks: list[Block], order: list[int], alignment: int) -> list[int]:
    """Each block at the lowest multiple of the alignment where it shares no byte with blocks that live with it."""
    offsets = [0] * len(blocks)
    for count, i in enumerate(order):
        while any(meet(blocks[i], offsets[i], blocks[j], offsets[j]) for j in order[:count]):
            offsets[i] += alignment
    return offsets


@given(lists_of_blocks, st.sampled_from([16, 64]), st.randoms(use_true_random=False))
def test_a_block_goes_to_the_lowest_place_that_is_free(blocks: list[Block], alignment: int, rng: random.Random) -> None:
    order = rng.sample(range(len(blocks)), len(blocks))
    assert arena.lowest_fit(blocks, alignment)(order) == naive_fit(blocks, order, alignment)


def test_blocks_that_do_not_meet_may_share() -> None:
    blocks = [Block(32, 0, 1), Block(32, 2, 3)]
    assert arena.check(blocks, [0, 0]) == []
    assert arena.place(blocks) == [0, 0]
    assert arena.place([]) == []
