"""``twinfer bench``."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from twinfer.command_line.command import EXIT_DIFFERS, EXIT_USAGE, Command, complain, complain_of, interrupted
from twinfer.command_line.options import (
    MODEL,
    OPTIMIZE,
    add_float,
    add_storages,
    add_targets,
    add_threads,
    natural,
    note_unused_storage,
    positive,
    storages,
    write_json,
)
from twinfer.command_line.targets import cards, peers, settings, words
from twinfer.runtime.errors import InvalidArgumentError, TwinferError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from twinfer.bench.drift.drift import Drifts, Limits
    from twinfer.bench.drift.saved import Saved
    from twinfer.runtime.options import Options

ABOUT = "time a model interpreted and compiled, beside the peers; on a microcontroller count instructions and bytes"
EXAMPLES = (
    "",
    "kws_int8 --layers",
    "kws_int8 --target cortex-m4,cortex-m55 --optimize speed,size",
    "kws_int8 --target cortex-m4,riscv32-vexriscv --cycles",
    "model.tflite --against tflm --seconds 5 --json bench.json",
    "model.tflite --target cortex-m4 --layers --save",
    "model.tflite --target cortex-m4 --layers --compare --max-drift 2",
)

Row = dict[str, Any]

#: Measures one model on one target: (source, told) -> rows; it calls ``told`` with the share that is done.
Measure = Callable[[Any, Callable[[float], None]], list[Row]]

#: Options for this computer alone, and for microcontrollers alone, with their defaults.
HOST_ALONE = {"against": None, "seconds": 1.0, "runs": None, "threads": 1}
BOARDS_ALONE = {"optimize": "balanced", "weights": "file", "decode": "layer", "engine": "both", "memory": "auto"}


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("models", nargs="*", metavar="MODEL", help=f"{MODEL}; all built-in models if none is given")
    command.add_argument("--layers", action="store_true", help="every layer, too, and what the loop in Python takes")
    about = "on microcontrollers, cycles, too: counted on a simulated core, else estimated (needs llvm-mca)"
    command.add_argument("--cycles", action="store_true", help=about)
    command.add_argument(
        "--against", metavar="PEERS", help="litert, tflm, litert-ref, or none (default: those installed)"
    )
    add_targets(command)
    add_drift(command)
    about = f"on microcontrollers, one or several with commas: {OPTIMIZE}"
    command.add_argument("--optimize", metavar="HOW", default="balanced", help=about)
    add_storages(command)
    add_float(command)
    add_threads(command, "on this computer, split large layers of our engines over so many threads")
    about = "on microcontrollers, what to measure (default: both)"
    command.add_argument("--engine", choices=["interpreted", "compiled", "both"], default="both", help=about)
    about = "on microcontrollers, how RAM is planned (default: auto; --layers plans by layers)"
    command.add_argument("--memory", choices=["auto", "layers", "rows"], default="auto", help=about)
    command.add_argument("--seconds", type=positive(float), default=1.0, help="time for each model (default: 1)")
    command.add_argument("--runs", type=positive(int), metavar="N", help="rounds for each model, instead of --seconds")
    command.add_argument("--seed", type=natural, default=0, help="seed of the inputs (default: 0)")
    command.add_argument("--json", metavar="FILE", help="write the figures to FILE, too; - for standard output alone")
    about = "write a page to FILE that shows microcontrollers beside TFLM, where its figures are known"
    command.add_argument("--html", metavar="FILE", help=about)


def run(arguments: argparse.Namespace) -> int:
    from twinfer.bench.drift.saved import is_file
    from twinfer.bench.models.source import builtin_names, file_of
    from twinfer.bench.page.page import need_library
    from twinfer.runtime.read.files import check_places

    if arguments.html:
        need_library()
    measures = _measures(arguments)
    names = arguments.models or builtin_names()
    kept, before = (place if place and is_file(place) else None for place in (arguments.save, arguments.compare))
    read = (*(file_of(name) for name in names), *words(arguments.target), before)
    check_places((arguments.json, arguments.html, kept), inputs=read)
    watch = watch_of(arguments, names)
    measured = _measure(names, measures, arguments.seed)
    if measured.rows:
        return _show(arguments, measured, watch)
    return (
        interrupted(measured.missing, written=False) if measured.missing else measured.failed
    )  # there is nothing to write


def _show(arguments: argparse.Namespace, measured: Measured, watch: Watch) -> int:
    """Compare, write and keep what was measured; returns the exit status."""
    from twinfer.bench.drift.drift import drift_tables
    from twinfer.bench.measure.report import document

    told, whole, outcome = document(measured.rows), not measured.missing, watch.drifts(measured.rows)
    extra = ({} if whole else {"interrupted": True}) | (outcome.document if outcome else {})
    _write(arguments, told | extra, drift_tables(outcome, watch.limits) if outcome else ())
    watch.keep(told, whole)
    if not whole:
        return interrupted(measured.missing)
    if outcome and not outcome.compared:
        measured.failed = complain(
            "nothing was compared (--compare): no kept figure has this machine and these options"
        )
    statuses = (exit_status(measured.rows), EXIT_DIFFERS if outcome and outcome.worse else 0, measured.failed)
    return EXIT_DIFFERS if EXIT_DIFFERS in statuses else max(statuses)


def _measures(arguments: argparse.Namespace) -> list[tuple[str, Measure]]:
    """For every target its name and a function that measures one model."""
    from twinfer.bench.measure.embedded import MODES, every
    from twinfer.command_line.terminal import note

    boards = cards(arguments.target)
    stored, goals = storages(arguments.weights, arguments.decode), settings(arguments.optimize)
    modes = [mode for mode in MODES if arguments.engine in (mode, "both")]
    options = every(goals, stored, modes, "layers" if arguments.layers else arguments.memory, arguments.floats)
    if arguments.cycles and not any(boards):
        raise InvalidArgumentError("--cycles is for microcontrollers: add --target cortex-m4, or another core")
    for line in unused_options(arguments, boards):
        note(line)
    return [
        ("host", _on_host(arguments)) if board is None else (board.name, _on_board(board, arguments, options))
        for board in boards
    ]


def _on_host(arguments: argparse.Namespace) -> Measure:
    from twinfer.bench.measure import compare
    from twinfer.bench.peers.engines import benched

    against = peers(arguments.against, benched())
    how = (arguments.seconds, arguments.runs, arguments.seed, arguments.floats, arguments.threads)
    wanted = compare.Comparison(against, arguments.layers, *how)
    return lambda source, told: compare.compare(source, wanted, told)


def _on_board(board: Any, arguments: argparse.Namespace, options: Sequence[Options]) -> Measure:
    from twinfer.bench.measure import embedded
    from twinfer.bench.measure.cycles import need_model

    embedded.need_tools(board)
    if arguments.cycles:
        need_model(board)
    wanted = embedded.Measurement(options, arguments.seed, arguments.layers, arguments.cycles)

    def measure(source: Any, told: Callable[[float], None]) -> list[Row]:
        note_unused_storage(source, [board.target], options)
        return embedded.measure_on(source, board, wanted, told)

    return measure


def unused_options(arguments: argparse.Namespace, boards: Sequence[Any]) -> Iterator[str]:
    """A line for each option that none of the targets (None: the host) heeds."""
    host = "this computer (--target host)", HOST_ALONE, None in boards
    cores = "microcontrollers (--target cortex-m4, …)", BOARDS_ALONE, any(boards)
    for where, options, there in (host, cores):
        for name, usual in options.items():
            if not there and getattr(arguments, name) != usual:
                yield f"--{name} {getattr(arguments, name)} changes nothing: it is for {where}"


@dataclass
class Measured:
    """The rows so far and the exit status (EXIT_USAGE if a model could not be run). ``done`` counts models on a target;
    after Ctrl-C ``missing`` names those that are left."""

    rows: list[Row] = field(default_factory=list)
    failed: int = 0
    done: int = 0
    missing: list[str] = field(default_factory=list)


def _measure(names: Sequence[str], measures: Sequence[tuple[str, Measure]], seed: int) -> Measured:
    """The rows of all models on all targets; those before a target that fails stay. Ctrl-C keeps what is finished."""
    from twinfer.bench.models import zero_division
    from twinfer.bench.models.source import load
    from twinfer.command_line.terminal import progress
    from twinfer.runtime.plan.make import make_plan
    from twinfer.runtime.run.inputs import random_inputs

    measured, every = Measured(), list(product(names, measures))
    try:
        with progress(len(every)) as told:
            for i, name in enumerate(names):
                measured.done = i * len(measures)
                try:
                    source = load(name)
                    if zero_division.has_integer_division(source.graph):  # a warning, whatever the targets are
                        graph = make_plan(source.graph).graph
                        inputs = random_inputs(graph, seed)
                        zero_division.warn_of_zero_divisions(graph, inputs, "the inputs of the bench", source.name)
                    for _, measure in measures:
                        told(measured.done, name, 0)
                        measured.rows += measure(source, partial(told, measured.done, name))
                        measured.done += 1
                except TwinferError as error:
                    measured.failed = complain_of(name, error)
    except KeyboardInterrupt:
        measured.missing = [f"{name} on {target}" for name, (target, _) in every[measured.done :]]
    return measured


def _write(arguments: argparse.Namespace, told: dict[str, Any], drifted: Iterable[RenderableType]) -> None:
    """Write the figures to where they were asked for: JSON, a page, the terminal."""
    from twinfer.bench.measure.embedded_html import embedded_html
    from twinfer.bench.measure.embedded_report import embedded_tables
    from twinfer.bench.measure.report import tables
    from twinfer.command_line.terminal import console, show
    from twinfer.runtime.read.files import write_text

    rows = told["rows"]
    if arguments.json:
        write_json(arguments.json, told)
    there = [row for row in rows if row["target"] != "host"]
    if arguments.html:
        write_text(arguments.html, embedded_html(there))
    if arguments.json != "-":
        show(tables([row for row in rows if row["target"] == "host"]))
        show(embedded_tables(there, console().width))
        show(drifted)


def exit_status(rows: Sequence[Any]) -> int:
    """The exit status: 1 unless our own engines agree with each other, 2 if one of them did not run."""
    own = [row for row in rows if row["engine"] in ("interpreted", "compiled")]
    if any(not (row["same_bits"] or row.get("agrees")) and not row.get("error") for row in own):
        return EXIT_DIFFERS
    return EXIT_USAGE if any(row.get("error") for row in own) else 0


# Figures that are kept, and compared with those kept.

#: The name of figures that were given none.
BASE = "base"

PLACE = "a NAME (default: base), by machine and model in .twinfer/bench, or a .json file"


def add_drift(command: argparse.ArgumentParser) -> None:
    about = f"keep the figures to compare with later, as {PLACE}"
    command.add_argument("--save", metavar="PLACE", nargs="?", const=BASE, help=about)
    about = f"compare with figures kept as {PLACE}; exit status 1 if one got worse by more than --max-drift"
    command.add_argument("--compare", metavar="PLACE", nargs="?", const=BASE, help=about)
    about = "how far figures may drift (default: 1 for counts and bytes, 25 for times, and beyond their noise)"
    command.add_argument("--max-drift", metavar="PERCENT", type=_percent, help=about)


def _percent(text: str) -> float:
    """5 and 5% as the same number."""
    with suppress(ValueError):
        value = float(text.rstrip("% "))
        if 0 <= value < math.inf:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is no per cent: write 5 or 5%")


@dataclass(frozen=True)
class Watch:
    """What ``--save`` and ``--compare`` asked for; ``before`` are the figures to compare with, read beforehand."""

    save: str | None
    before: Sequence[Saved] | None
    machine: Mapping[str, Any]
    limits: Limits

    def drifts(self, rows: Sequence[Mapping[str, Any]]) -> Drifts | None:
        """The rows beside the figures of before; None if they were not asked for."""
        from twinfer.bench.drift.drift import drifts
        from twinfer.bench.drift.runs import runs_of

        return None if self.before is None else drifts(runs_of(rows), self.machine, self.before, self.limits)

    def keep(self, document: Mapping[str, Any], whole: bool) -> None:
        """Keep the figures if asked to, and say so. Those of a run that was broken off are not kept."""
        from twinfer.bench.drift.saved import save
        from twinfer.command_line.terminal import note

        if self.save is None:
            return
        if whole and document["rows"]:
            first, *others = save(document, self.save)
            note(f"figures are kept in {first}" + (f" and {len(others)} more" if others else ""))
        else:
            note("nothing was kept (--save)")


def watch_of(arguments: argparse.Namespace, models: Sequence[str]) -> Watch:
    """The watch that was asked for. InvalidArgumentError for options that do not fit, and without figures of before."""
    from twinfer.bench.drift.drift import Limits
    from twinfer.bench.drift.saved import is_file, saved
    from twinfer.bench.measure.report import machine
    from twinfer.bench.models.source import builtin_names, name_of

    places = [place for place in (arguments.save, arguments.compare) if place is not None]
    names, limit = [name_of(model) for model in models], arguments.max_drift
    for place in places:
        if place in builtin_names() or place.endswith(".tflite"):
            raise InvalidArgumentError(f"{place} is a model: name the models first, then --save or --compare")
        is_file(place)
    if places and (twice := [name for i, name in enumerate(names) if name in names[:i]]):
        raise InvalidArgumentError(f"two models are called {twice[0]}: figures are kept by name, so rename one")
    if limit is not None and arguments.compare is None:
        raise InvalidArgumentError("--max-drift says how far figures may be from those kept: give --compare, too")
    here = machine() if arguments.compare is not None else {}
    before = None if arguments.compare is None else saved(arguments.compare, names, here)
    return Watch(arguments.save, before, here, Limits() if limit is None else Limits(limit, limit))


COMMAND = Command("bench", ABOUT, EXAMPLES, add_arguments, run)
