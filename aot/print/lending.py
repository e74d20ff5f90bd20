"""The self-test of a model that reads its input in place: the input lies in memory that must stay as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from twinfer.runtime.plan.plan import Plan


@dataclass(frozen=True)
class Lending:
    """The C of one model's test about that; nothing if it has no such input."""

    plan: Plan
    name: str

    @property
    def _place(self) -> int | None:
        """Which of the inputs it is."""
        return None if self.plan.borrowed is None else self.plan.graph.inputs.index(self.plan.borrowed)

    @property
    def _kept(self) -> str:
        return f"{self.name}_test_kept"

    @property
    def _bytes(self) -> str:
        return f"{self.name.upper()}_INPUT_{self._place}_BYTES"

    @property
    def _align(self) -> str:
        return f"{self.name.upper()}_INPUT_{self._place}_ALIGN"

    def memory(self) -> Iterator[str]:
        """Its memory, with a byte more."""
        if self._place is not None:
            yield f"static _Alignas({self._align}) unsigned char {self._kept}[{self._bytes} + 1];"

    def filled(self) -> Iterator[str]:
        """The statements that fill it for a run."""
        if self._place is not None:
            yield f"memcpy({self._kept}, {self.name}_test_input_{self._place}[run], {self._bytes});"

    def unchanged(self) -> Iterator[str]:
        """The check that nothing has written there."""
        if self._place is not None:
            yield f"bad |= memcmp({self._kept}, {self.name}_test_input_{self._place}[run], {self._bytes}) != 0;"

    def inputs(self, fed: Sequence[int]) -> str:
        """What a run gets, in C; ``fed`` are the inputs that are no constants."""
        at = {i: f"{self.name}_test_input_{i}[run]" for i in fed}
        at |= {} if self._place is None else {self._place: self._kept}
        return ", ".join(at.get(i, "NULL") for i in range(len(self.plan.graph.inputs))) or "NULL"

    def refused(self, blocks: str) -> Iterator[str]:
        """The checks that a run over ``blocks`` refuses to do without it, and one that is misaligned."""
        if self._place is None:
            return
        odd = [f"{self._kept} + 1" if i == self._place else "NULL" for i in range(len(self.plan.graph.inputs))]
        yield f"    const void *const odd[] = {{{', '.join(odd)}}};"
        yield f"    bad |= {self.name}_run({blocks}, NULL, NULL) != 3;"
        yield f"    if ({self._align} > 1) bad |= {self.name}_run({blocks}, odd, NULL) != 2;"
