"""The arena planner: no fault, never below the lower bound, and optimal where it says so."""

from __future__ import annotations

import itertools
import random
import sys
from dataclasses import replace

import pytest
from arenas import Problem, faulty, least_height, problems
from hypothesis import given, settings
from hypothesis import strategies as st

from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan import arena, placement
from twinfer.runtime.plan.arena import Block, Overlap
from twinfer.runtime.plan.plan import Region
from twinfer.runtime.plan.solve import core, exact, greedy

#: The greedy orders need a byte more than a search does.
HARD = [Block(5, 1, 1), Block(6, 0, 2), Block(4, 2, 4), Block(3, 1, 3), Block(3, 2, 3)]


def naive_bound(blocks: list[Block], overlaps: list[Overlap]) -> int:
    """The most live bytes at a step, less what pairs can share: of one block no more than all of it."""
    most = 0
    for step in range(max((block.last for block in blocks), default=0) + 1):
        live = {i for i, block in enumerate(blocks) if block.first <= step <= block.last}
        saved = {i: dict.fromkeys(range(len(blocks)), 0) for i in live}
        for each in overlaps:
            if {each.over, each.under} <= live:
                over, under = blocks[each.over].size, blocks[each.under].size
                shared = over + under - max(under + each.distance, over)
                saved[each.under][each.over] = max(saved[each.under][each.over], shared)
        most = max(most, sum(blocks[i].size - min(blocks[i].size, sum(saved[i].values())) for i in live))
    return most


@settings(deadline=None)
@given(problems())
def test_placement_is_sound(problem: Problem) -> None:
    blocks, overlaps = problem
    placed = arena.place(blocks, overlaps)
    assert arena.check(blocks, placed.offsets, overlaps) == []
    assert faulty(blocks, placed.offsets, overlaps) == []
    assert arena.height(blocks, placed.offsets) >= arena.lower_bound(blocks, overlaps)
    assert placed == arena.place(blocks, overlaps)
    unaligned = [block._replace(alignment=1) for block in blocks]
    assert arena.lower_bound(unaligned, overlaps) == naive_bound(blocks, overlaps)
    assert arena.lower_bound(unaligned, overlaps) <= arena.lower_bound(blocks, overlaps)


@settings(deadline=None, max_examples=300)
@given(problems(most=5, size=5, alignments=(1, 1, 2, 4)))
def test_what_is_proven_is_the_least_of_all_placements(problem: Problem) -> None:
    blocks, overlaps = problem
    placed, least = arena.place(blocks, overlaps), least_height(blocks, overlaps)
    assert placed.proven
    assert arena.lower_bound(blocks, overlaps) <= least == arena.height(blocks, placed.offsets)


@given(st.lists(st.integers(1, 200), max_size=8))
def test_chain_reaches_the_bound(sizes: list[int]) -> None:
    """Only the next step reads each tensor, so two live at a time, as in every plain net."""
    chain = [Block(size * 16, i, i + 1, 16) for i, size in enumerate(sizes)]
    assert arena.height(chain, arena.place(chain).offsets) == arena.lower_bound(chain)


def test_a_chain_that_eats_itself() -> None:
    """Each block may lie over the one before it: in one direction they drift, with both they go to and fro."""
    blocks = [Block(100, i, i + 1) for i in range(5)]
    forwards = [Overlap(i + 1, i, 10) for i in range(4)]
    backwards = [Overlap(i + 1, i, 10, backwards=True) for i in range(4)]
    heights = [
        arena.height(blocks, arena.place(blocks, pairs).offsets)
        for pairs in ([], forwards, backwards, forwards + backwards)
    ]
    assert heights == [200, 140, 140, 110]
    assert arena.lower_bound(blocks, forwards) == arena.lower_bound(blocks, forwards + backwards) == 110


@pytest.mark.parametrize("alignment", [1, 4, 16, 64])
def test_sizes_that_are_no_multiples(alignment: int) -> None:
    """As good as the best order; the bound for an alignment never exceeds the optimum."""
    lives = ((0, 1), (1, 2), (0, 2), (2, 3))
    for chosen in itertools.product((1, alignment, alignment + 1, 2 * alignment - 1), repeat=len(lives)):
        blocks = [Block(size, *life, alignment) for size, life in zip(chosen, lives, strict=True)]
        fit, orders = greedy.lowest_fit(arena.puzzle_of(blocks, ())), itertools.permutations(range(len(blocks)))
        best = min(arena.height(blocks, fit(order)) for order in orders)
        assert arena.height(blocks, arena.place(blocks).offsets) == best
        assert naive_bound(blocks, []) <= arena.lower_bound(blocks) <= best


@pytest.mark.parametrize(
    ("sizes", "bound"), [((17, 17), 49), ((17, 32), 49), ((1, 1, 1), 33), ((16, 16), 32), ((5, 0), 5)]
)
def test_the_bound_of_blocks_that_live_together(sizes: tuple[int, ...], bound: int) -> None:
    """All but the highest block take whole multiples of 16; the highest is the one that saves most by that."""
    together = [Block(size, 0, 0, 16) for size in sizes]
    assert arena.lower_bound(together) == bound == arena.height(together, arena.place(together).offsets)


@pytest.mark.parametrize("elsewhere", [0, 2])
def test_a_block_elsewhere_saves_no_padding(elsewhere: int) -> None:
    """Only blocks that live at the step can be the highest there."""
    blocks = [Block(1, elsewhere, elsewhere, 16), Block(24, 1, 1, 16), Block(24, 1, 1, 16)]
    assert arena.lower_bound(blocks) == 56


def test_small_blocks_use_the_padding_of_others() -> None:
    blocks = [Block(17, 0, 0, 16), Block(17, 0, 0, 16), Block(7, 0, 0, 1), Block(5, 0, 0, 4)]
    assert arena.lower_bound(blocks) == 49 == arena.height(blocks, arena.place(blocks).offsets)
    assert arena.check(blocks, [0, 32, 17, 49]) == ["block 3 at 49: not a multiple of 4"]


def test_bytes_that_several_blocks_share_count_once() -> None:
    """Two outputs over one input of 10 bytes: together they save no more than it has, at steps where both live."""
    blocks = [Block(10, 0, 1), Block(9, 1, 2), Block(8, 1, 3)]
    overlaps = [Overlap(1, 0, 0), Overlap(2, 0, 0), Overlap(1, 0, 0, True), Overlap(2, 0, 0, True)]
    assert arena.lower_bound(blocks, overlaps) == 17 == arena.height(blocks, arena.place(blocks, overlaps).offsets)


def test_a_saving_is_whole_multiples_of_the_alignment() -> None:
    """20 bytes begin at least 16 before their 20 of input, not 10: they share 4."""
    blocks = [Block(20, 0, 1, 16), Block(20, 1, 1, 16)]
    assert arena.lower_bound(blocks, [Overlap(1, 0, 10)]) == 36
    assert arena.place(blocks, [Overlap(1, 0, 10)]) == arena.Placement((16, 0), True)
    assert arena.place(blocks, [Overlap(1, 0, 10, True)]) == arena.Placement((0, 16), True)


# -- the proof ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offsets", "fault"),
    [((0, 0), "blocks 0 [0, 32) and 1 [0, 16) overlap"), ((0, 31), "not a multiple"), ((-16, 32), "not a multiple")],
)
def test_check_finds_faults(offsets: tuple[int, int], fault: str) -> None:
    assert any(fault in line for line in arena.check([Block(32, 0, 2, 16), Block(16, 2, 3, 16)], offsets))


@pytest.mark.parametrize(("backwards", "touching"), [(False, (7, 4)), (True, (5, 8))])
def test_a_byte_less_of_distance_is_caught(backwards: bool, touching: tuple[int, int]) -> None:
    """At the distance and farther a placement holds; nearer, or in the wrong direction, it does not."""
    blocks, overlaps = [Block(10, 0, 1), Block(10, 1, 2)], [Overlap(1, 0, 3, backwards)]
    for over in range(25):
        offsets = (touching[0], over)
        right = over <= touching[1] if not backwards else over >= touching[1]
        apart = over >= touching[0] + 10
        assert (arena.check(blocks, offsets, overlaps) == []) == (right or apart), offsets
    nearer = touching[1] + (1 if not backwards else -1)
    (line,) = arena.check(blocks, (touching[0], nearer), overlaps)
    assert line.endswith(
        f"block 1 may {'end 3 bytes behind' if backwards else 'begin 3 bytes before'} block 0 or farther"
    )


@pytest.mark.parametrize(
    ("overlap", "fault"),
    [
        (Overlap(1, 0, -1), "a distance of -1"),
        (Overlap(0, 1, 0), "does not follow"),  # the other way round
        (Overlap(2, 0, 0), "does not follow"),  # block 0 is needed longer
        (Overlap(3, 0, 0), "does not follow"),  # block 0 is gone
        (Overlap(1, 4, 0), "it is over 0, too"),
    ],
)
def test_overlaps_that_no_rows_can_have(overlap: Overlap, fault: str) -> None:
    blocks = [Block(8, 0, 2), Block(8, 2, 4), Block(8, 1, 1), Block(8, 3, 3), Block(8, 0, 3)]
    apart = [8 * i for i in range(len(blocks))]
    assert arena.check(blocks, apart, [Overlap(1, 0, 0)]) == []
    assert any(fault in line for line in arena.check(blocks, apart, [Overlap(1, 0, 0), overlap]))


def pairs_in(lines: list[str]) -> list[tuple[int, int]]:
    words = [line.split() for line in lines if "overlap while both live" in line]
    return sorted((int(line[1]), int(line[5])) for line in words)


@settings(deadline=None)
@given(problems(most=14), st.data())
def test_check_finds_what_comparing_every_pair_finds(problem: Problem, data: st.DataObject) -> None:
    """Over offsets at random, most of them wrong, and over a good placement with one block moved."""
    blocks, overlaps = problem
    wild = data.draw(st.lists(st.integers(-20, 120), min_size=len(blocks), max_size=len(blocks)))
    assert pairs_in(arena.check(blocks, wild, overlaps)) == faulty(blocks, wild, overlaps)
    moved = list(arena.place(blocks, overlaps).offsets)
    for _ in blocks[:1]:
        i = data.draw(st.integers(0, len(blocks) - 1))
        moved[i] += data.draw(st.integers(-3, 3)) * data.draw(st.sampled_from([1, blocks[i].alignment]))
        wrong = [f"block {i} at {moved[i]}:"] if moved[i] < 0 or moved[i] % blocks[i].alignment else []
        assert [line.partition(" not")[0] for line in arena.check(blocks, moved, overlaps)][: len(wrong)] == wrong
    assert pairs_in(arena.check(blocks, moved, overlaps)) == faulty(blocks, moved, overlaps)


def test_blocks_that_do_not_meet_may_share() -> None:
    blocks = [Block(32, 0, 1), Block(32, 2, 3)]
    assert arena.check(blocks, [0, 0]) == []
    assert arena.place(blocks) == arena.Placement((0, 0), True)
    assert arena.place([]) == arena.Placement((), True)


# -- the search behind the greedy orders -------------------------------------------------------------------------------


def test_a_search_finds_what_greedy_orders_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    """At its limit it gives up: the greedy placement stays, and is not proven."""
    placed = arena.place(HARD)
    assert (arena.height(HARD, placed.offsets), placed.proven) == (16, True)
    for module, limit in ((exact, "MOST_LOOKS"), (core, "MOST_PAIRS")):
        with monkeypatch.context() as patch:
            patch.setattr(module, limit, 5)
            placed = arena.place(HARD)
        assert (arena.height(HARD, placed.offsets), placed.proven) == (17, False)


def test_the_other_solver_is_asked_only_where_nothing_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)  # so that importing it fails
    assert arena.place(HARD, exact=True).proven
    drifting = [Block(100, i, i + 1) for i in range(5)], [Overlap(i + 1, i, 10) for i in range(4)]
    assert arena.place(*drifting, exact=True).proven
    assert arena.lower_bound(*drifting) < 140
    monkeypatch.setattr(exact, "MOST_LOOKS", 5)
    assert not arena.place(HARD).proven
    with pytest.raises(ToolError, match=r"pip install 'twinfer\[exact\]'"):
        arena.place(HARD, exact=True)


def test_two_thousand_blocks() -> None:
    """A long net with branches, whose layers may lie over their inputs."""
    rng = random.Random(7)
    blocks = [
        Block(rng.randrange(1, 3000), i, i + rng.choice((1, 1, 1, 2, 9)), rng.choice((1, 4))) for i in range(2000)
    ]
    pairs = [(i, i - 1) for i in range(1, 2000) if blocks[i - 1].last == i]
    overlaps = [Overlap(over, under, rng.randrange(100), rng.random() < 0.5) for over, under in pairs]
    placed = arena.place(blocks, overlaps)
    assert arena.check(blocks, placed.offsets, overlaps) == []
    assert len(overlaps) > 1000
    assert arena.height(blocks, placed.offsets) <= arena.height(blocks, arena.place(blocks).offsets)


def test_a_solution_uses_overlaps() -> None:
    """The state keeps its alignment, blocks of the arena have their own, and the bound knows none."""
    blocks = [Block(10, 0, 1), Block(10, 1, 2, 4)]
    tensors, state = [Tensor(str(i), "INT8", (10,)) for i in range(2)], Tensor("state", "INT8", (3,))
    problem = placement.Problem(blocks, [[tensor] for tensor in tensors], [state], 16, overlaps=[Overlap(1, 0, 3)])
    solution = placement.solve(problem, "g")
    assert [solution.places[tensor].offset for tensor in tensors] == [3, 0]
    assert (solution.regions[Region.ARENA].nbytes, solution.proven, problem.lower_bound) == (13, True, 13)
    assert solution.regions[Region.STATE].offset == 16
    assert replace(problem, blocks=[block._replace(alignment=16) for block in blocks]).lower_bound == 13


@pytest.mark.parametrize("looks", [0, exact.MOST_LOOKS])
def test_a_solution_says_whether_it_is_proven(looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "MOST_LOOKS", looks)
    members = [[Tensor(str(i), "INT8", (block.size,))] for i, block in enumerate(HARD)]
    assert placement.solve(placement.Problem(HARD, members, [], 16), "g").proven == (looks > 0)
