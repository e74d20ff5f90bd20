"""What ``kernels_c/run/chain.h`` is told of a chain, as plain values: the interpreter and emitted C have the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.by_rows.schedule import Link
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Chain

#: What a whole value has in place of a layer's rows at once and of what they need.
ALL = {"band": 0, "stride": 0, "pad": 0, "reach": 0}


class Entry(NamedTuple):
    """A tw_rows_layer but for its function and context: ``link`` has them, or it is a whole value and needs none."""

    link: Link | None
    values: Mapping[str, Any]


@dataclass(frozen=True)
class ChainTable:
    """The table of one chain: ``given`` are the whole values that it reads by rows. Offsets count
    from the chain's arena on.
    """

    plan: Plan
    chain: Chain

    @cached_property
    def given(self) -> Mapping[Tensor, int]:
        """Each with its number of rows."""
        own = {link.out for link in self.chain.links}
        every = (source for link in self.chain.links for source in link.sources)
        return {tensor: height for _, tensor, height in every if tensor not in own}

    @property
    def counts(self) -> dict[str, int]:
        """The members of a tw_chain behind its pointer, in their order."""
        wanted = self.chain.feed.wanted if self.chain.feed else 0
        return {"count": len(self.number), "given": len(self.given), "wanted": wanted}

    @property
    def entries(self) -> Iterator[Entry]:
        """What gives rows, by number."""
        yield from (
            Entry(None, self._values(tensor, height, tensor.nbytes // height)) for tensor, height in self.given.items()
        )
        for link in self.chain.links:
            by, read = link.rows, [self.number[tensor] for _, tensor, _ in link.sources]
            rows = {"band": link.band, "stride": by.stride, "pad": by.pad, "reach": by.reach}
            yield Entry(link, self._values(link.out, link.height, link.row_bytes, rows, read))

    @cached_property
    def number(self) -> Mapping[Tensor, int]:
        """The number of everything that gives rows."""
        return {tensor: i for i, tensor in enumerate([*self.given, *(link.out for link in self.chain.links)])}

    def _values(
        self, tensor: Tensor, height: int, row: int, rows: Mapping[str, int] = ALL, read: Sequence[int] = ()
    ) -> dict[str, Any]:
        ring = self.chain.rings.get(tensor)
        place = self.plan.places[ring.memory if ring else tensor]
        return {
            "offset": place.offset,
            "row": row,
            "height": height,
            **rows,
            "capacity": ring.capacity if ring else 0,
            "kept": ring.kept if ring else 0,
            "sources": len(read),
            "source": list(read),
        }
