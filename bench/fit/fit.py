"""From a float model, data and a board to a firmware: which precisions, which memory, which options."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from twinfer.aot.build.catalogue import Board
from twinfer.aot.build.estimates import CORES
from twinfer.aot.build.matching import Match, matches
from twinfer.aot.build.project import write_project
from twinfer.aot.print.emit import Project
from twinfer.aot.print.literals import identifier
from twinfer.bench.fit.shrink import changes
from twinfer.converter.convert import convert
from twinfer.converter.optimise import optimise
from twinfer.converter.quantize.features import scale_features
from twinfer.converter.quantize.quality import KEPT
from twinfer.converter.quantize.recipe import DEFAULT
from twinfer.converter.quantize.samples import Samples, samples_of
from twinfer.converter.search.auto import Chosen, Whole, again, choose, layers_of, meets
from twinfer.converter.search.costs import Figures, weights
from twinfer.converter.search.space import Setting
from twinfer.converter.search.trial import Trial
from twinfer.converter.source import Shapes, Source, read_source
from twinfer.converter.stream.convert import Streaming, prove, stream
from twinfer.runtime.errors import InvalidArgumentError, TwinferError
from twinfer.runtime.graph import Graph
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.files import check_places

#: Ways that are matched with the board, at most: each is planned.
MOST = 12

#: How many times fewer instructions a stream must take to be told of.
FASTER = 2

#: ``told(what, share)``.
Told = Callable[[str, float], None]


@dataclass(frozen=True)
class Way:
    """One way to have the model on the board: precisions that are good enough (``trial``), and the options with which
    the board takes it. ``slow``: milliseconds beyond those allowed, infinite where nothing is known of the time.
    ``streaming``: how the graph came about if it takes only the new rows of a window."""

    trial: Trial
    graph: Graph
    match: Match
    slow: float = 0.0
    streaming: Streaming | None = None

    @property
    def key(self) -> tuple[Setting, bool]:
        return self.trial.setting, self.streaming is not None

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
    def options(self) -> str:
        """How it is had beside precisions: options of ``compile``, and what a run takes of a stream; often nothing."""
        rows = "" if self.streaming is None else f"stream, new rows a run: {self.streaming.hop}"
        return ", ".join(filter(None, [rows, self.match.words]))

    @property
    def short(self) -> str:
        """What is short, in words; empty if it fits."""
        fit = self.match.fit
        lacks = ((fit.ram_short, "{:,} B of RAM"), (fit.flash_short, "{:,} B of flash"))
        said = " and ".join(words.format(amount) for amount, words in lacks if amount)
        late = f"{self.slow:,.1f} ms too slow" if self.slow else ""
        late = late if math.isfinite(self.slow) else "nothing is known of its time"
        return ", ".join(filter(None, [said and f"short of {said}", late]))

    def cost(self, floats: Figures) -> float:
        """The mean of its shares of the float model's instructions, flash and RAM, as needed on the board."""
        need = self.match.need
        own = Figures(self.match.estimate.instructions or self.trial.instructions, need.flash, need.ram)
        return own.times(weights("balanced", floats))


@dataclass(frozen=True)
class Fitted:
    """What ``fit`` found. ``ways``: all that was possible and good enough, the cheapest first, by cost (the shares of
    what the float model takes of instructions, flash and RAM). ``best``: the cheapest that fits, else the nearest.
    ``model``: the best as a graph, with ranges from all samples; None if nothing fits. ``advice``: what would make it
    fit, each tried; where it fits, what would make it much faster."""

    name: str
    board: Board
    chosen: Chosen
    ways: tuple[Way, ...]
    best: Way
    model: Graph | None
    advice: tuple[str, ...]
    max_ms: float | None = None

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
    new_rows: int | None = None,
    name: str | None = None,
    shapes: Shapes | None = None,
    told: Told | None = None,
) -> Fitted:
    """The cheapest firmware of a float model for a board, within a loss.

    ``samples``: as for ``convert``, with or without labels. ``max_loss``, ``min_snr``: what is good enough, as in
    ``search.auto.choose``. ``max_ms``: the most milliseconds of a run, as estimated. ``new_rows``: the input is a
    window that moves on by so many rows between runs (0: by the least that the model allows), so that a stream can take
    its place. ``name``: of the model in C, by default its own. ``board.limited`` makes a smaller budget of RAM and
    flash.

    Precisions are searched that are cheap on balance; where none of these fits, those that are cheap in what is short.
    Each is planned by layers and by rows, with the input whole and by rows, and with the options that need less flash,
    until it fits. InvalidArgumentError for a time on a board of which none is known, and for a window of a model that
    no stream can replace; TwinferErrors as in ``convert``.
    """
    tell = told or (lambda what, share: None)
    if max_ms is not None and (board.known_core not in CORES or not board.clock_mhz):
        raise InvalidArgumentError(f"{board.name}: nothing is known of the time of its core: leave max_ms out")
    graph = optimise(read_source(source, shapes))
    if new_rows is not None:
        stream(graph, hop=new_rows or None)  # raises why it cannot be
    graph = scale_features(graph, list(islice(samples_of(graph, samples), KEPT)), DEFAULT)
    tell("precisions", 0.0)
    chosen = choose(graph, samples, max_loss=max_loss, min_snr=min_snr, target=board.target)
    on = _Board(board, max_ms, new_rows)
    trials = dict.fromkeys((*chosen.good[:MOST], chosen.whole["float"]))  # where all others miss the goal, it does not
    ways = {each.key: each for trial in trials for each in on.ways(chosen, trial)}
    for what, cost in (("RAM", "arena"), ("flash", "flash"), ("time", "instructions")):
        if any(way.fits for way in ways.values()):
            break
        if any(what in way.lacks for way in ways.values()):
            tell(f"precisions that take little {what}", 0.3)
            more = again(chosen, cost).good[:MOST]
            new = [trial for trial in more if (trial.setting, False) not in ways]
            ways |= {each.key: each for trial in new for each in on.ways(chosen, trial)}
    tell("the model, with ranges from all samples", 0.7)
    listed = sorted(ways.values(), key=lambda way: way.cost(chosen.job.floats))
    best, whole = None, Whole(graph, samples)
    for way in [way for way in listed if way.fits]:
        final, at = on.final(chosen, way, whole), listed.index(way)
        listed[at : at + 1] = [final] if final else []
        if final and final.fits:
            best = final
            break
    near = best or min(listed, key=lambda way: max(way.lacks.values()))
    tell("what would help", 0.9)
    model = None if best is None else best.graph
    return Fitted(name or graph.name, board, chosen, tuple(listed), near, model, tuple(on.advice(chosen, near)), max_ms)


@dataclass(frozen=True)
class _Board:
    """A board, the milliseconds of a run there, and the new rows of a window."""

    board: Board
    max_ms: float | None
    new_rows: int | None

    def way(self, trial: Trial, graph: Graph, streaming: Streaming | None = None) -> Way:
        (match,) = matches(graph, [self.board])
        ms = (
            math.inf if match.estimate.ms is None else match.estimate.ms
        )  # nothing is known of weights that are decoded
        late = 0.0 if self.max_ms is None else max(0.0, ms - self.max_ms)
        return Way(trial, graph, match, late, streaming)

    def ways(self, chosen: Chosen, trial: Trial) -> Iterator[Way]:
        """The model of a trial, and its stream."""
        yield self.way(trial, graph := chosen.graph(trial))
        if self.new_rows is not None and (streaming := self.stream(graph)) is not None:
            yield self.way(trial, streaming.graph, streaming)

    def stream(self, graph: Graph) -> Streaming | None:
        """The stream of a model, if there is one."""
        try:
            return stream(graph, hop=self.new_rows or None)
        except TwinferError:
            return None

    def final(self, chosen: Chosen, way: Way, whole: Whole) -> Way | None:
        """The same with ranges from all samples: what is written; None if it misses the goal. A stream that gives other
        bits is none."""
        made = whole.as_tried(way.trial.setting)
        if made is not None and not meets(chosen, made):
            return None
        model = convert(made or whole.graph)
        streaming = None if way.streaming is None else self.stream(model)
        streaming = None if streaming is not None and prove(model, streaming).different else streaming
        return self.way(way.trial, model if streaming is None else streaming.graph, streaming)

    def advice(self, chosen: Chosen, near: Way) -> Iterator[str]:
        """What makes it fit, or much faster; each was tried."""
        if near.streaming is None and self.new_rows is None and (streaming := self.stream(near.graph)) is not None:
            other = self.way(near.trial, streaming.graph, streaming)
            faster = (near.match.estimate.instructions or 0) / (other.match.estimate.instructions or 1)
            if other.fits and (not near.fits or faster >= FASTER):
                how = "Faster" if near.fits else "It fits"
                window = f"if the input is a window whose new rows in a run are {streaming.hop}"
                gain = f"{faster:.1f} times fewer instructions, {other.match.need.ram:,} B of RAM"
                yield f"{how} with --stream, {window}: {gain}."
        if near.fits:
            return
        enough = list[str]()
        for trial in chosen.whole.values():
            if trial not in chosen.good and self.way(trial, chosen.graph(trial)).fits:
                loss = f"--max-loss {math.ceil(1000 * trial.loss) / 10:g}%"
                lower = f"--min-snr {math.floor(trial.sure_db)}" if chosen.goal.max_loss is None else loss
                enough.append(f"{lower}: {layers_of(trial.setting)}")
                break
        enough += changes(near.graph, lambda graph: self.way(near.trial, graph).fits)
        yield from (f"It fits with {words}." for words in enough)
        if not enough:
            yield "Fewer channels are not enough: it takes a smaller input, another model or another board."
