"""Where every tensor lies: lifetimes -> the arena's problem -> its solution, a place in a region per tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan import arena
from twinfer.runtime.plan.arena import Block, aligned
from twinfer.runtime.plan.lifetimes import Lifetimes
from twinfer.runtime.plan.plan import Extent, Place, Region

#: Offsets and sizes are int32 in the kernels and in the emitted code.
MOST_BYTES = 1 << 31


@dataclass(frozen=True)
class Problem:
    """What is to be placed: the blocks of the run, the tensors in each (``members``), and the state."""

    blocks: Sequence[Block]
    members: Sequence[Sequence[Tensor]]
    state: Sequence[Tensor]
    alignment: int

    @property
    def everything(self) -> list[Block]:
        """All blocks, those of the state last."""
        end = max((block.last for block in self.blocks), default=0)
        return [*self.blocks, *(Block(tensor.nbytes, -1, end) for tensor in self.state)]

    @property
    def lower_bound(self) -> int:
        """Bytes that any placement needs."""
        return arena.lower_bound(self.everything)


@dataclass(frozen=True)
class Solution:
    """Where everything lies, and how many bytes that takes."""

    places: Mapping[Tensor, Place]
    regions: Mapping[Region, Extent]
    arena_bytes: int


def problem(lifetimes: Lifetimes, alignment: int) -> Problem:
    """The problem that these lifetimes pose; every block is aligned to so many bytes."""
    groups: dict[Tensor, list[Tensor]] = {}
    for tensor, owner in lifetimes.owners.items():
        if owner not in lifetimes.state:
            groups.setdefault(owner, []).append(tensor)
    lives = lifetimes.lives
    blocks = [
        Block(max(t.nbytes for t in group), min(lives[t][0] for t in group), max(lives[t][1] for t in group))
        for group in groups.values()
    ]
    return Problem(blocks, list(groups.values()), lifetimes.state, alignment)


def solved(problem: Problem, name: str) -> Solution:
    """The places, proven to be right. UnsupportedOperatorError if graph ``name`` needs 2 GiB or more.

    The state lies below all else or, where that saves padding, above it.
    """
    offsets = arena.place(problem.blocks, problem.alignment)
    state, state_bytes = _row(problem.state, problem.alignment)
    regions = _regions(arena.height(problem.blocks, offsets), state_bytes, problem.alignment)
    absolute = [at + regions[Region.SCRATCH].offset for at in offsets]
    absolute += [state[tensor] + regions[Region.STATE].offset for tensor in problem.state]
    arena_bytes = arena.height(problem.everything, absolute)
    if arena_bytes >= MOST_BYTES:
        raise UnsupportedOperatorError(f"graph {name!r}: its tensors need an arena of 2 GiB or more")
    if faults := arena.check(problem.everything, absolute, problem.alignment):
        raise RuntimeError(f"the arena planner is wrong: {faults[0]}")
    places = {t: Place(Region.SCRATCH, at) for at, group in zip(offsets, problem.members, strict=True) for t in group}
    return Solution(places | {tensor: Place(Region.STATE, at) for tensor, at in state.items()}, regions, arena_bytes)


def _regions(scratch: int, state: int, alignment: int) -> dict[Region, Extent]:
    """Where the regions of so many bytes lie, in the order that needs the fewest bytes."""
    if not state or aligned(scratch, alignment) + state < aligned(state, alignment) + scratch:
        above = aligned(scratch, alignment) if state else 0
        return {Region.SCRATCH: Extent(0, scratch), Region.STATE: Extent(above, state)}
    return {Region.SCRATCH: Extent(aligned(state, alignment), scratch), Region.STATE: Extent(0, state)}


def _row(tensors: Sequence[Tensor], alignment: int) -> tuple[dict[Tensor, int], int]:
    """Offsets of tensors in a row, the one with most padding last, and the bytes that the row takes."""
    row = sorted(tensors, key=lambda tensor: aligned(tensor.nbytes, alignment) - tensor.nbytes)
    starts = accumulate((aligned(tensor.nbytes, alignment) for tensor in row), initial=0)
    offsets = dict(zip(row, starts, strict=False))
    return offsets, max((at + tensor.nbytes for tensor, at in offsets.items()), default=0)
