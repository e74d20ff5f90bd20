"""The statements that run a program: one per layer, inside of if and for where it branches or loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from twinfer.runtime.graph import Tensor
from twinfer.runtime.program import Alias, Chain, If, Program, Step, While

#: The statements that run consecutive layers.
Run = Callable[[range], Iterator[str]]


@dataclass(frozen=True)
class Statements:
    """Prints programs. ``number`` is that of each layer, ``condition`` the address of the byte that decides.

    ``chain`` gives the statements that run a chain.
    """

    number: Mapping[Step, int]
    run: Run
    condition: Callable[[Tensor], str]
    chain: Callable[[Chain], Iterator[str]]

    def of(self, program: Program) -> Iterator[str]:
        """The lines of a program, each with its indentation inside of the function."""
        parts_run = (part for part in program if not isinstance(part, Alias))
        for straight, parts in groupby(parts_run, lambda part: isinstance(part, Step)):
            if straight:
                numbers = [self.number[part] for part in parts if isinstance(part, Step)]
                yield from self.run(range(numbers[0], numbers[-1] + 1))
            else:
                for part in parts:
                    yield from self._control(part)

    def _control(self, part: object) -> Iterator[str]:
        match part:
            case Chain():
                yield from self.chain(part)
            case If():
                yield f"if (*({self.condition(part.condition)}) != 0) {{"
                yield from self._inner(part.then)
                if part.orelse:
                    yield "} else {"
                    yield from self._inner(part.orelse)
                yield "}"
            case While():
                yield "for (;;) {"
                yield from self._inner(part.test)
                yield f"    if (*({self.condition(part.condition)}) == 0) break;"
                yield from self._inner(part.body)
                yield "}"

    def _inner(self, program: Program) -> Iterator[str]:
        yield from (f"    {line}" for line in self.of(program))
