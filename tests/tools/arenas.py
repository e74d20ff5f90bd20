"""Blocks and overlaps at random, and what is right of a placement, by comparing every pair of blocks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from twinfer.runtime.plan.arena import Block, Overlap

#: Blocks and the pairs of them that may overlap.
Problem = tuple[list[Block], list[Overlap]]


def follows(over: Block, under: Block) -> bool:
    """Whether the rows of ``over`` can be computed from those of ``under``, which nothing reads later."""
    return under.first <= over.first <= under.last <= over.last


@st.composite
def problems(
    draw: Any, most: int = 12, size: int = 40, alignments: Sequence[int] = (1, 1, 4, 16), overlaps: bool = True
) -> Problem:
    """Up to ``most`` blocks of up to ``size`` bytes, many of which may lie over an earlier one."""
    blocks, pairs = list[Block](), list[Overlap]()
    for over in range(draw(st.integers(0, most))):
        first, length = draw(st.integers(0, 5)), draw(st.integers(0, 3))
        block = Block(draw(st.integers(0, size)), first, first + length, draw(st.sampled_from(alignments)))
        unders = [i for i, under in enumerate(blocks) if follows(block, under)]
        blocks.append(block)
        if overlaps and unders and draw(st.booleans()):
            under = draw(st.sampled_from(unders))
            for backwards in draw(st.sampled_from([(False,), (True,), (False, True)])):
                pairs.append(Overlap(over, under, draw(st.integers(0, size // 2)), backwards))
    return blocks, pairs


def clear(blocks: list[Block], i: int, at: int, j: int, other: int, overlaps: list[Overlap]) -> bool:
    """Whether blocks i at ``at`` and j at ``other`` never share a byte, or only as they may."""
    a, b = blocks[i], blocks[j]
    together = max(a.first, b.first) <= min(a.last, b.last)
    if not together or max(at, other) >= min(at + a.size, other + b.size):
        return True
    begin, end = {i: at, j: other}, {i: at + a.size, j: other + b.size}
    near = [each for each in overlaps if {each.over, each.under} == {i, j}]
    forwards = [begin[each.over] + each.distance <= begin[each.under] for each in near if not each.backwards]
    backwards = [end[each.over] >= end[each.under] + each.distance for each in near if each.backwards]
    return any(forwards + backwards)


def faulty(blocks: list[Block], offsets: Sequence[int], overlaps: list[Overlap]) -> list[tuple[int, int]]:
    """The pairs of blocks that share bytes and must not."""
    pairs = itertools.combinations(range(len(blocks)), 2)
    return [(i, j) for i, j in pairs if not clear(blocks, i, offsets[i], j, offsets[j], overlaps)]


def least_height(blocks: list[Block], overlaps: list[Overlap]) -> int:
    """The least height of any placement: every offset of every block is tried."""
    return next(height for height in itertools.count() if _fits(blocks, overlaps, height, []))


def _fits(blocks: list[Block], overlaps: list[Overlap], height: int, offsets: list[int]) -> bool:
    i = len(offsets)
    if i == len(blocks):
        return True
    for at in range(0, height - blocks[i].size + 1, blocks[i].alignment):
        beside = all(clear(blocks, i, at, j, other, overlaps) for j, other in enumerate(offsets))
        if beside and _fits(blocks, overlaps, height, [*offsets, at]):
            return True
    return False
