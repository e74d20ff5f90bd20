"""Where every tensor lies: lifetimes -> the arena's problem -> its solution, a place in a region per tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan import arena
from twinfer.runtime.plan.arena import Block, Overlap
from twinfer.runtime.plan.lifetimes import Lifetimes
from twinfer.runtime.plan.plan import Extent, Place, Region
from twinfer.runtime.plan.sharing import Life
from twinfer.runtime.plan.solve.puzzle import aligned
from twinfer.runtime.target import Target

if TYPE_CHECKING:
    from twinfer.runtime.plan.by_rows.ring_sizes import Over

#: Offsets and sizes are int32 in the kernels and in the emitted code.
MOST_BYTES = 1 << 31


@dataclass(frozen=True)
class Problem:
    """What is to be placed: the blocks of the arena, the tensors in each (``members``), and the state.

    ``alignment`` is that of both regions and of every tensor of the state. ``within`` are tensors that use the memory
    of one of the state. ``borrowed`` is an input that needs none.
    """

    blocks: Sequence[Block]
    members: Sequence[Sequence[Tensor]]
    state: Sequence[Tensor]
    alignment: int
    within: Mapping[Tensor, Tensor] = field(default_factory=dict)
    overlaps: Sequence[Overlap] = ()
    borrowed: Tensor | None = None

    @property
    def lower_bound(self) -> int:
        """Bytes of arena that any placement needs, however its blocks are aligned."""
        return self._peak[0]

    @property
    def forced_at(self) -> int:
        """The position whose live tensors force the lower bound."""
        return self._peak[1]

    def among(self, chosen: Sequence[int]) -> Problem:
        """The same for some of the blocks, in that order; without the state."""
        number = {block: i for i, block in enumerate(chosen)}
        overlaps = [
            each._replace(over=number[each.over], under=number[each.under])
            for each in self.overlaps
            if each.over in number and each.under in number
        ]
        blocks, members = [self.blocks[i] for i in chosen], [self.members[i] for i in chosen]
        return Problem(blocks, members, (), self.alignment, overlaps=overlaps)

    @cached_property
    def _peak(self) -> tuple[int, int]:
        return arena.peak_unaligned(self.blocks, self.overlaps)


class Solution(NamedTuple):
    """Where everything lies. ``proven``: no placement of the arenas' blocks needs less."""

    places: Mapping[Tensor, Place]
    regions: Mapping[Region, Extent]
    proven: bool


def problem(lifetimes: Lifetimes, target: Target, over: Sequence[Over] = ()) -> Problem:
    """The problem that these lifetimes pose on a target; ``over`` are rows over rows."""
    groups: dict[Tensor, list[Tensor]] = {}
    for tensor, owner in lifetimes.owners.items():
        groups.setdefault(owner, []).append(tensor)
    within = {tensor: owner for owner in lifetimes.state for tensor in groups.pop(owner)}
    groups = {owner: group for owner, group in groups.items() if owner is not lifetimes.borrowed}
    lives = lifetimes.lives
    blocks = [_block(group, [lives[tensor] for tensor in group], target.block_alignment) for group in groups.values()]
    number = {tensor: i for i, tensor in enumerate(groups)}
    block = {tensor: number[owner] for tensor, owner in lifetimes.owners.items() if owner in number}
    overlaps = [Overlap(block[each.over], block[each.under], each.distance, each.backwards) for each in over]
    return Problem(
        blocks, list(groups.values()), lifetimes.state, target.alignment, within, overlaps, lifetimes.borrowed
    )


def _block(group: Sequence[Tensor], lives: Sequence[Life], alignment: int) -> Block:
    """The block of tensors that share their memory: a multiple of their elements, and of what kernels need."""
    size, element = max(t.nbytes for t in group), max(t.dtype.itemsize for t in group)
    return Block(size, min(first for first, _ in lives), max(last for _, last in lives), max(alignment, element))


def solve(problem: Problem, name: str, homes: Mapping[Region, Sequence[int]] | None = None) -> Solution:
    """The places, proven to be right. UnsupportedOperatorError if graph ``name`` needs 2 GiB or more.

    ``homes`` are the arenas with the numbers of their blocks; None: one arena for all.
    """
    places, regions, proven, begin = dict[Tensor, Place](), dict[Region, Extent](), True, 0
    parts = {region: problem.among(chosen) for region, chosen in homes.items()} if homes else {Region.ARENA: problem}
    for region, part in parts.items():
        placement = arena.place(part.blocks, part.overlaps)
        _prove(part.blocks, placement.offsets, part.overlaps)
        members = zip(placement.offsets, part.members, strict=True)
        places |= {tensor: Place(region, at) for at, group in members for tensor in group}
        regions[region] = Extent(begin, arena.height(part.blocks, placement.offsets))
        begin, proven = aligned(regions[region].end, problem.alignment), proven and placement.proven
    state, state_bytes = _row(problem.state, problem.alignment)
    if begin + state_bytes >= MOST_BYTES:
        raise UnsupportedOperatorError(f"graph {name!r}: its tensors need an arena of 2 GiB or more")
    _prove([Block(t.nbytes, 0, 0, problem.alignment) for t in problem.state], [state[t] for t in problem.state])
    places |= {tensor: Place(Region.STATE, at) for tensor, at in state.items()}
    places |= {tensor: places[owner] for tensor, owner in problem.within.items()}
    regions[Region.STATE] = Extent(begin if state_bytes else 0, state_bytes)
    if problem.borrowed:
        places[problem.borrowed] = Place(Region.INPUT, 0)
        end = aligned(max(extent.end for extent in regions.values()), problem.alignment)
        regions[Region.INPUT] = Extent(end, problem.borrowed.nbytes)
    return Solution(places, regions, proven)


def _prove(blocks: Sequence[Block], offsets: Sequence[int], overlaps: Sequence[Overlap] = ()) -> None:
    """RuntimeError if blocks overlap while they live, other than they may, or lie across their alignment."""
    if faults := arena.check(blocks, offsets, overlaps):
        raise RuntimeError(f"the arena planner is wrong: {faults[0]}")


def _row(tensors: Sequence[Tensor], alignment: int) -> tuple[dict[Tensor, int], int]:
    """Offsets of tensors in a row, the one with most padding last, and the bytes that the row takes."""
    row = sorted(tensors, key=lambda tensor: aligned(tensor.nbytes, alignment) - tensor.nbytes)
    starts = accumulate((aligned(tensor.nbytes, alignment) for tensor in row), initial=0)
    offsets = dict(zip(row, starts, strict=False))
    return offsets, max((at + tensor.nbytes for tensor, at in offsets.items()), default=0)
