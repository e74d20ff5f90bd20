"""The input by rows, in C: the calls of ``run/feed.h`` that give rows to the chain which a program begins with."""

from __future__ import annotations

from dataclasses import dataclass

from twinfer.runtime.plan.plan import Plan


@dataclass(frozen=True)
class Feeding:
    """The calls for one plan; the arena is at ``base``."""

    plan: Plan
    name: str

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
        at = self.plan.offsets[self.plan.fed.progress] if self.plan.fed and self.plan.fed.progress else 0
        return f"(tw_rows_progress *)(void *)(base + {at})"

    @property
    def begin(self) -> str:
        return f"tw_chain_begin(&{self.symbol}, {self._progress})"

    @property
    def push(self) -> str:
        """Takes ``row``."""
        return f"tw_feed_row(&{self.symbol}, {self._progress}, base, row)"

    @property
    def waits(self) -> str:
        """Whether rows are missing."""
        return f"tw_feed_waits(&{self.symbol}, {self._progress})"

    def everything(self, given: str) -> str:
        """Takes all rows of a whole input."""
        return f"tw_feed_all(&{self.symbol}, {self._progress}, base, {given})"
