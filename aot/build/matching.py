"""Which boards a model fits, with which options, and about how long it takes there. Nothing is compiled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from twinfer.aot.build.catalogue import Board, Estimate, Fit
from twinfer.aot.build.estimates import Need, counted, need_of
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.target import Target

#: Ways to plan that need less memory than the usual one, each less than the one before.
WAYS = (Options(memory="rows"), Options(memory="rows", input_rows=True))


@dataclass(frozen=True)
class Match:
    """A board, and the first options with which a model fits it; if it never does, those with which least is short.

    ``estimate`` is for these options.
    """

    board: Board
    options: Options
    need: Need
    fit: Fit
    estimate: Estimate

    @property
    def short(self) -> int:
        """Bytes of RAM and flash that lack."""
        return self.fit.ram_short + self.fit.flash_short

    @property
    def words(self) -> str:
        """The options as ``compile`` takes them; empty for the usual ones."""
        how = self.options
        given = {"--memory": how.memory, "--optimize": how.optimize, "--weights": how.weights}
        usual = ("auto", "balanced", "file")
        said = [f"{name} {value}" for (name, value), same in zip(given.items(), usual, strict=True) if value != same]
        return " ".join([*said, *(["--input-rows"] if how.input_rows else [])])


def matches(graph: Graph, boards: Sequence[Board]) -> list[Match]:
    """What each board says to a model, in their order; raises what ``make_plan`` does if it cannot be planned at all.

    Boards with the same features share their plans, and what needs less memory is planned only if one lacks memory.
    """
    plans = _Plans(graph)
    return [min(_tried(board, plans), key=lambda match: match.short) for board in boards]


def _tried(board: Board, plans: _Plans) -> Iterator[Match]:
    """The options that are worth trying on a board, until one fits."""
    last = plans.match(board, Options())
    yield last
    if last.fit.flash_short > last.need.constants / 2:
        return  # however stored, the weights are too many
    for way in WAYS:
        if last.fit.ram_short and plans.possible(board.target, way):
            last = plans.match(board, way)
            yield last
    small = replace(last.options, optimize="size")
    for way in (small, replace(small, weights="auto")):
        if last.fit.flash_short and plans.possible(board.target, way):
            last = plans.match(board, way)
            yield last


class _Plans:
    """The plans of a model, by features and options, and what they cost: each is made once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.plans: dict[tuple[Target, Options], Plan] = {}
        self.needs: dict[tuple[Target, Options], Need] = {}
        self.counts: dict[tuple[Target, Options, str], float | None] = {}

    def plan(self, target: Target, options: Options) -> Plan:
        """The plan; raises what ``make_plan`` does."""
        key = replace(target, name=""), replace(options, optimize="balanced")
        if key not in self.plans:
            self.plans[key] = make_plan(self.graph, target, key[1])
        return self.plans[key].printed(optimize=options.optimize)

    def possible(self, target: Target, options: Options) -> bool:
        """Whether the model can be planned so: not every input can be given by rows."""
        try:
            self.plan(target, options)
        except TwinferError:
            return False
        return True

    def match(self, board: Board, options: Options) -> Match:
        """The board with the plan for these options."""
        key = replace(board.target, name=""), options
        if key not in self.needs:
            self.needs[key] = need_of(self.plan(board.target, options))
        each = *key, board.known_core
        if each not in self.counts:
            self.counts[each] = counted(self.plan(board.target, options), board.known_core)
        need = self.needs[key]
        return Match(board, options, need, board.fits(need), board.takes(self.counts[each]))
