"""From a float model, data and a board to a firmware: which precisions, which memory, which options."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from twinfer.aot.build.catalogue import Board
from twinfer.aot.build.estimates import CORES
from twinfer.aot.build.matching import Match, matches
from twinfer.aot.build.project import write_project
from twinfer.aot.print.emit import Project
from twinfer.aot.print.literals import identifier
from twinfer.bench.fit.shrink import Change, changes
from twinfer.converter.convert import convert
from twinfer.converter.loops import roll
from twinfer.converter.optimise import optimise
from twinfer.converter.quantize.samples import Samples
from twinfer.converter.search.auto import Chosen, again, as_tried, choose
from twinfer.converter.search.costs import Figures, weights
from twinfer.converter.search.trial import Bench, Trial
from twinfer.converter.source import Shapes, Source, read_source
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.files import check_places
from twinfer.runtime.read.tflite import read

#: Ways that are matched with the board, at most: each is planned.
MOST = 12

#: ``told(what, share)``.
Told = Callable[[str, float], None]


@dataclass(frozen=True)
class Way:
    """One way to have the model on the board: precisions that are good enough (``trial``), and the options with which
    the board takes it. ``slow``: milliseconds beyond those allowed."""

    trial: Trial
    graph: Graph
    match: Match
    slow: float = 0.0

    @property
    def fits(self) -> bool:
        return not self.lacks

    @property
    def lacks(self) -> dict[str, float]:
        """What is short: RAM, flash or time -> by which share of what the model needs."""
        fit, need = self.match.fit, self.match.need
        ms = self.match.estimate.ms or 1.0
        shares = {"RAM": fit.ram_short / max(need.ram, 1), "flash": fit.flash_short / max(need.flash, 1)}
        return {what: share for what, share in {**shares, "time": self.slow / ms}.items() if share}

    @property
    def short(self) -> str:
        """What is short, in words; empty if it fits."""
        fit = self.match.fit
        lacks = ((fit.ram_short, "{:,} B of RAM"), (fit.flash_short, "{:,} B of flash"))
        said = " and ".join(words.format(amount) for amount, words in lacks if amount)
        late = f"{self.slow:,.1f} ms too slow" if self.slow else ""
        return ", ".join(filter(None, [said and f"short of {said}", late]))

    def cost(self, floats: Figures) -> float:
        """The mean of its shares of the float model's instructions, flash and RAM, as needed on the board."""
        need = self.match.need
        own = Figures(self.match.estimate.instructions or self.trial.instructions, need.flash, need.ram)
        return own.times(weights("balanced", floats))


@dataclass(frozen=True)
class Fitted:
    """What ``fit`` found. ``ways``: all that was possible and good enough, the cheapest first, by cost (thousandths of
    what the float model takes of instructions, flash and RAM). ``best``: the cheapest that fits, else the nearest.
    ``model``: the best as a graph, with ranges from all samples; None if nothing fits. ``changes``: where nothing fits,
    what the model would have to lose."""

    name: str
    board: Board
    chosen: Chosen
    ways: tuple[Way, ...]
    best: Way
    model: Graph | None
    changes: tuple[Change, ...]

    @property
    def fits(self) -> bool:
        return self.model is not None

    def write(self, folder: str | os.PathLike[str]) -> Project:
        """Writes ``model.tflite``, and the C that runs it on the board as the folder ``c``. InvalidArgumentError if
        nothing fits, or the folder holds what is not ours."""
        if self.model is None:
            raise InvalidArgumentError(f"{self.name} does not fit {self.board.name}: {self.best.short}")
        place, card = Path(folder), self.board.card
        place.mkdir(parents=True, exist_ok=True)
        file = place / "model.tflite"
        check_places([file])
        target = self.board.target if card is None else card.target
        plan = make_plan(self.model, target, self.best.match.options)
        project = write_project(plan, identifier(self.name), place / "c", card=card)
        self.model.save(file)
        return project


def fit(
    source: Source,
    board: Board,
    samples: Samples,
    *,
    max_ms: float | None = None,
    max_loss: float | None = None,
    min_snr: float | None = None,
    name: str | None = None,
    shapes: Shapes | None = None,
    told: Told | None = None,
) -> Fitted:
    """The cheapest firmware of a float model for a board, within a loss.

    ``samples``: as for ``convert``, with or without labels. ``max_loss``, ``min_snr``: what is good enough, as in
    ``search.auto.choose``. ``max_ms``: the most milliseconds of a run, as estimated. ``name``: of the model in C, by
    default its own. ``board.limited`` makes a smaller budget of RAM and flash.

    Precisions are searched that are cheap on balance; where none of these fits, those that are cheap in what is short.
    Each is planned by layers and by rows, with the input whole and by rows, and with the options that need less flash,
    until it fits. InvalidArgumentError for a time on a board of which none is known; TwinferErrors as in ``convert``.
    """
    tell = told or (lambda what, share: None)
    if max_ms is not None and (board.known_core not in CORES or not board.clock_mhz):
        raise InvalidArgumentError(f"{board.name}: nothing is known of the time of its core: leave max_ms out")
    graph = optimise(read_source(source, shapes))
    tell("precisions", 0.0)
    chosen = choose(graph, samples, max_loss=max_loss, min_snr=min_snr, target=board.target)
    ways = {way.trial.setting: way for way in _ways(chosen, board, max_ms)}
    for what, cost in (("RAM", "arena"), ("flash", "flash"), ("time", "instructions")):
        if any(way.fits for way in ways.values()):
            break
        if any(what in way.lacks for way in ways.values()):
            tell(f"precisions that take little {what}", 0.3)
            more = _ways(again(chosen, cost), board, max_ms)
            ways |= {way.trial.setting: way for way in more if way.trial.setting not in ways}
    name, listed = name or graph.name, tuple(sorted(ways.values(), key=lambda way: way.cost(chosen.job.floats)))
    best = next((way for way in listed if way.fits), None)
    if best is None:
        near = min(listed, key=lambda way: max(way.lacks.values()))
        helps = tuple(changes(near.graph, near.match, near.lacks, max_ms))
        return Fitted(name, board, chosen, listed, near, None, helps)
    tell("the model, with ranges from all samples", 0.7)
    made = as_tried(graph, samples, best.trial.setting)
    model = convert(graph if made is None else made[0])
    return Fitted(name, board, chosen, listed, best, model, ())


def _ways(chosen: Chosen, board: Board, max_ms: float | None) -> Iterator[Way]:
    bench = Bench(chosen.job)
    for trial in chosen.good[:MOST]:
        floats = trial.setting.precision == "float"
        graph = roll(read(chosen.job.model)) if floats else bench.quantized(trial.setting)
        (match,) = matches(graph, [board])
        late = 0.0 if max_ms is None else max(0.0, (match.estimate.ms or 0.0) - max_ms)
        yield Way(trial, graph, match, late)
