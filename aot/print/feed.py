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

    @property
    def _progress(self) -> str:
        at = self.plan.places[self.plan.fed.progress].offset if self.plan.fed and self.plan.fed.progress else 0
        return f"(tw_rows_progress *)(void *)({self.base} + {at})"

    @property
    def begin(self) -> str:
        return f"tw_feed_begin(&{self.symbol}, {self._progress})"

    @property
    def begun(self) -> str:
        """Whether it has begun and not ended."""
        return f"tw_feed_begun(&{self.symbol}, {self._progress})"

    @property
    def end(self) -> str:
        return f"tw_feed_end(&{self.symbol}, {self._progress})"

    @property
    def push(self) -> str:
        """Takes ``row``."""
        return f"tw_feed_row(&{self.symbol}, {self._progress}, {self.base}, row)"

    @property
    def waits(self) -> str:
        """Whether rows are missing."""
        return f"tw_feed_waits(&{self.symbol}, {self._progress})"

    def everything(self, given: str) -> str:
        """Takes all rows of a whole input."""
        return f"tw_feed_all(&{self.symbol}, {self._progress}, {self.base}, {given})"
