"""What is explained of one model on one target: its ledger and, if techniques are named, its ladder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from twinfer.aot.build.targets import Card
from twinfer.bench.explain import ladder as ladders
from twinfer.bench.explain import on_host, on_target
from twinfer.bench.explain.ladder import Ladder
from twinfer.bench.explain.ledger import Ledger
from twinfer.bench.models.source import Source
from twinfer.runtime.options import USUAL, Options

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Wanted:
    """What is measured: ``seconds`` of time on a computer, and a ladder of these ``techniques``, if any."""

    seed: int = 0
    seconds: float = 5.0
    techniques: Sequence[str] = ()


#: What is measured unless something else is asked for.
MEASURED = Wanted()


@dataclass(frozen=True)
class Explanation:
    """A model on one target; the ladder only if it was asked for."""

    ledger: Ledger
    ladder: Ladder | None

    @property
    def same_bits(self) -> bool:
        return self.ledger.same_bits and (self.ladder is None or self.ladder.same_bits)

    @property
    def document(self) -> dict[str, Any]:
        """The JSON document."""
        return self.ledger.document | ({} if self.ladder is None else {"ladder": self.ladder.document})


def explain(
    source: Source,
    card: Card | None,
    options: Options = USUAL,
    wanted: Wanted = MEASURED,
    progress: Progress = lambda share: None,
) -> Iterator[Explanation]:
    """A model on a card's core, or on this computer without one: the ledger and, if wanted, both it and the ladder.

    Each is more of the same than the one before it; the last one is whole. ToolError if a program cannot be built or
    run there.
    """
    seed, seconds, names = wanted.seed, wanted.seconds, wanted.techniques

    def first(share: float) -> None:
        progress(share / 2 if names else share)

    def second(share: float) -> None:
        progress((1 + share) / 2)

    if card is None:
        yield Explanation(ledger := on_host.ledger_on_host(source, options, seed, seconds, first), None)
        if names:
            yield Explanation(ledger, ladders.ladder_on_host(source, names, options, seed, seconds, second))
        return
    yield Explanation(ledger := on_target.ledger_on(source, card, options, seed, first), None)
    if names:
        yield Explanation(ledger, ladders.ladder_on(source, card, names, options, seed, second))
