"""Where every tensor lies: lifetimes -> the arena's problem -> its solution, as places in regions."""

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
    """Blocks to place, each with the tensors that share it: those of the run, and the state, which lives for ever."""

    blocks: Sequence[Block]
    members: Sequence[Sequence[Tensor]]
    state: Sequence[Tensor]
    alignment: int

    @property
    def lower_bound(self) -> int:
        """Bytes that any placement needs."""
        end = max((block.last for block in self.blocks), default=0)
        return arena.lower_bound([*self.blocks, *(Block(tensor.nbytes, -1, end) for tensor in self.state)])


@dataclass(frozen=True)
class Solution:
    """Where everything lies, and how many bytes that takes."""

    places: Mapping[Tensor, Place]
    regions: Mapping[Region, Extent]
    arena_bytes: int


def problem(lifetimes: Lifetimes, alignment: int) -> Problem:
    """What is to be placed, aligned to so many bytes."""
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
    """The places, proven to be right. UnsupportedOperatorError if they reach too far for graph ``name``.

    The state lies in a row below all else or, where that saves padding, above it.
    """
    offsets = arena.place(problem.blocks, problem.alignment)
    if faults := arena.check(problem.blocks, offsets, problem.alignment):
        raise RuntimeError(f"the arena planner is wrong: {faults[0]}")
    scratch = arena.height(problem.blocks, offsets)
    row, state = _row(problem.state, problem.alignment)
    above, below = aligned(scratch, problem.alignment) + state, aligned(state, problem.alignment) + scratch
    if not state:
        above = below = scratch
    if min(above, below) >= MOST_BYTES:
        raise UnsupportedOperatorError(f"graph {name!r}: its tensors need an arena of 2 GiB or more")
    bases = (0, aligned(scratch, problem.alignment)) if above < below else (aligned(state, problem.alignment), 0)
    places = {t: Place(Region.SCRATCH, at) for at, group in zip(offsets, problem.members, strict=True) for t in group}
    places |= {tensor: Place(Region.STATE, at) for tensor, at in row.items()}
    regions = {Region.SCRATCH: Extent(bases[0], scratch), Region.STATE: Extent(bases[1] if state else 0, state)}
    return Solution(places, regions, min(above, below))


def _row(tensors: Sequence[Tensor], alignment: int) -> tuple[dict[Tensor, int], int]:
    """Tensors one behind the other, that with most padding last, and how many bytes they take."""
    row = sorted(tensors, key=lambda tensor: aligned(tensor.nbytes, alignment) - tensor.nbytes)
    starts = accumulate((aligned(tensor.nbytes, alignment) for tensor in row), initial=0)
    offsets = dict(zip(row, starts, strict=False))
    return offsets, max((at + tensor.nbytes for tensor, at in offsets.items()), default=0)
