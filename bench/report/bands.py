"""Which bytes of a plan's memory hold what, from the first operator to the last: what the page draws.

In a chain, time goes on part by part: an input gets shorter as its rows are eaten, an output longer as they are
computed, and the rows that a ring holds come and go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.by_rows.rows import ChainRun, RowPart
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.program import Chain

#: What a band of bytes is.
Kind = Literal["tensor", "rows", "scratch", "state"]

#: How the legend calls each kind.
NAMES: dict[Kind, str] = {"tensor": "tensor", "rows": "rows in a ring", "scratch": "scratch", "state": "state"}

#: A time, and the first byte and the end of what a tensor holds from then on.
Moment = tuple[float, tuple[int, int]]


@dataclass(frozen=True)
class Band:
    """The bytes of one tensor over time.

    From ``times[i]`` to ``times[i + 1]`` it holds the bytes from ``lows[i]`` to before ``highs[i]``. Times are numbers
    of operators, -1 before the first one.
    """

    name: str
    kind: Kind
    times: tuple[float, ...]
    lows: tuple[int, ...]
    highs: tuple[int, ...]


def bands(plan: Plan) -> list[Band]:
    """What lies where and when in arena and state, in the order in which it begins to live."""
    chains = [_Rows(plan, part) for part in plan.program if isinstance(part, Chain) and part.layers]
    rings = {ring.memory for chain in plan.chains.values() for ring in chain.rings.values()}
    here = [tensor for tensor in plan.places if tensor.nbytes and tensor not in rings and tensor is not plan.borrowed]
    whole = [_life(plan, tensor, chains) for tensor in here]
    every = (*whole, *(band for chain in chains for band in chain.in_rings()))
    return sorted(every, key=lambda band: (band.times[0], band.lows[0]))


def _life(plan: Plan, tensor: Tensor, chains: Sequence[_Rows]) -> Band:
    """A tensor for its whole life: all its bytes but while a chain computes or eats it."""
    first, last = plan.lives[tensor]
    scratch = any(tensor is step.scratch for step in plan.steps)
    free: Kind = "scratch" if scratch else "tensor"
    kind: Kind = "state" if plan.places[tensor].region == Region.STATE else free
    low, time, moments = plan.offsets[tensor], first, list[Moment]()
    whole = low, low + tensor.nbytes
    for chain in chains:
        if tensor in chain.heights:
            moments += [(time, whole)] if chain.first > time else []
            moments += chain.moments(tensor)
            time = chain.end
    moments += [(time, whole)] if last + 1 > time else []
    return _band(tensor, kind, moments, max(last + 1, time))


class _Rows:
    """The tensors of a chain that come and go row by row."""

    def __init__(self, plan: Plan, chain: Chain) -> None:
        self._plan, self._chain = plan, chain
        positions = [layer.step.position for layer in chain.layers]
        self.first, self.end = -1 if chain.feed else min(positions), max(positions) + 1
        self._run = ChainRun(chain.links, [link.out for link in chain.links if link.out not in chain.rings])
        self.heights = {**self._eaten(), **{link.out: link.height for link in chain.links}}
        self._there = [[self._rows(part, tensor) for tensor in self.heights] for part in self._run.parts()]

    def _eaten(self) -> dict[Tensor, int]:
        """The height of every tensor from before the chain that nobody needs after it."""
        made, lives = self._run.producer, self._plan.lives
        sources = [(tensor, height) for link in self._chain.links for _, tensor, height in link.sources]
        return {tensor: height for tensor, height in sources if tensor not in made and lives[tensor][1] < self.end}

    def _rows(self, part: RowPart, tensor: Tensor) -> tuple[int, int]:
        """The rows of a tensor that are there while a part is computed, the part's own among them."""
        number = self._run.producer.get(tensor)
        if number is None:
            height = self.heights[tensor]
            return min(self._run.low(tensor), height), height
        done = part.end if number == part.link else self._run.done[number]
        return min(self._run.low(tensor), done) if tensor in self._chain.rings else 0, done

    def moments(self, tensor: Tensor) -> list[Moment]:
        """The bytes of a tensor in every part."""
        span, place = (self.end - self.first) / len(self._there), list(self.heights).index(tensor)
        return [(self.first + span * k, self._bytes(tensor, *rows[place])) for k, rows in enumerate(self._there)]

    def in_rings(self) -> Iterator[Band]:
        """The tensors of which rings hold rows."""
        return (_band(tensor, "rows", self.moments(tensor), self.end) for tensor in self._chain.rings)

    def _bytes(self, tensor: Tensor, low: int, end: int) -> tuple[int, int]:
        """The bytes of some rows of a tensor, which in a ring lie at its beginning."""
        ring, height = self._chain.rings.get(tensor), self.heights[tensor]
        start, row = self._plan.offsets[ring.memory if ring else tensor], tensor.nbytes // height
        if ring:
            low, end = 0, end - low
        elif self._chain.backwards:
            low, end = height - end, height - low
        return start + low * row, start + end * row


def _band(tensor: Tensor, kind: Kind, moments: Sequence[Moment], end: float) -> Band:
    """The band of a tensor that holds bytes from each moment to the next, the last one ``end``."""
    lows, highs = zip(*(there for _, there in moments), strict=True)
    return Band(tensor.name, kind, (*(time for time, _ in moments), end), lows, highs)
