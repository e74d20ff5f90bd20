"""The input by rows, in C: the calls of ``run/feed.h`` that give rows to the chain which a program begins with."""

from __future__ import annotations

from dataclasses import dataclass

from twinfer.aot.print.blocks import in_run
from twinfer.runtime.plan.plan import Plan, Region


@dataclass(frozen=True)
class Feeding:
    """The calls for one plan, in the functions that callers see; ``base`` is the address of the rows' arena."""

    plan: Plan
    name: str

    @property
    def region(self) -> Region:
        """The arena of the rows."""
        return self.plan.region_of(self.plan.fed) if self.plan.fed else self.plan.arenas[0]

    @property
    def base(self) -> str:
        return in_run(self.region)

    @property
    def symbol(self) -> str:
        """The chain."""
        return f"{self.name}_feed"

    @property
    def place(self) -> int:
        """Which of the graph's inputs it takes."""
        return next(i for i, tensor in enumerate(self.plan.graph.inputs) if tensor.data is None)

    def call(self, what: str, *more: str) -> str:
        """A call of ``tw_feed_<what>``: begin, begun, waits, end, row of one row, all of a whole input."""
        at = self.plan.places[self.plan.fed.progress].offset if self.plan.fed and self.plan.fed.progress else 0
        progress = f"(tw_rows_progress *)(void *)({self.base} + {at})"
        return f"tw_feed_{what}({', '.join([f'&{self.symbol}', progress, *more])})"

    def everything(self, given: str) -> str:
        """Takes all rows of a whole input."""
        return self.call("all", self.base, given)
