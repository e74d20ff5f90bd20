"""``twinfer explain``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from twinfer.command_line.command import EXIT_DIFFERS, Command
from twinfer.command_line.options import (
    MODEL,
    OPTIMIZE,
    add_io,
    add_memory,
    add_optimize,
    add_targets,
    memory_of,
    natural,
    positive,
    write_json,
)
from twinfer.command_line.storage import add_storage, note_unused_storage
from twinfer.command_line.targets import cards
from twinfer.runtime.errors import InvalidArgumentError

if TYPE_CHECKING:
    from twinfer.bench.explain.ledger import Ledger
    from twinfer.bench.models.source import Source
    from twinfer.runtime.options import Options

ABOUT = "say what compiling is worth on a model, layer by layer and cause by cause, in figures that sum"
EXAMPLES = ("kws_int8", "kws_int8 --target cortex-m4,cortex-m55", "model.tflite --target cortex-m4 --json -")
STATUS = "\n\nexit status: 0 good, 1 the programs differ in a result, 2 a model cannot be run"

#: Measures one model on one target: (source, told) -> ledger; it calls ``told`` with the share that is done.
Measure = Callable[[Any, Callable[[float], None]], Any]


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=MODEL)
    add_targets(command)
    add_optimize(command, f"of compiled code, {OPTIMIZE}")
    add_storage(command)
    add_memory(command)
    add_io(command)
    about = "time to measure on this computer (default: 5)"
    command.add_argument("--seconds", type=positive(float), default=5.0, help=about)
    command.add_argument("--seed", type=natural, default=0, help="seed of the inputs (default: 0)")
    command.add_argument("--json", metavar="FILE", help="write the figures to FILE, too; - for standard output alone")


def run(arguments: argparse.Namespace) -> int:
    from twinfer.bench.explain.ledger_report import ledger_tables
    from twinfer.bench.models.source import file_of, load_with
    from twinfer.command_line.terminal import progress, show
    from twinfer.runtime.read.files import check_places

    measures = _measures(arguments)
    check_places((arguments.json,), inputs=(file_of(arguments.model), *arguments.target.split(",")))
    source = load_with(arguments.model, arguments.io)
    with progress(len(measures)) as told:
        ledgers = [measure(source, partial(told, i, arguments.model)) for i, measure in enumerate(measures)]
    if arguments.json:
        write_json(arguments.json, document(ledgers))
    for ledger in ledgers if arguments.json != "-" else ():
        show(ledger_tables(ledger))
    return 0 if all(ledger.same_bits for ledger in ledgers) else EXIT_DIFFERS


def document(ledgers: Sequence[Ledger]) -> dict[str, Any]:
    """The JSON document: a ledger; of several targets their list, as ``ledgers``."""
    from twinfer.bench.explain.ledger import SCHEMA

    if len(ledgers) == 1:
        return ledgers[0].document
    return {"schema": SCHEMA, "ledgers": [ledger.document for ledger in ledgers]}


def _measures(arguments: argparse.Namespace) -> list[Measure]:
    """For every target a function that measures a model."""
    from twinfer.bench.measure.embedded import need_tools

    chosen, options = cards(arguments.target), _options(arguments)
    for card in chosen:
        if card is not None:
            need_tools(card)
    return [_on_host(arguments, options) if card is None else _on_board(card, arguments, options) for card in chosen]


def _options(arguments: argparse.Namespace) -> Options:
    from twinfer.runtime.options import Options

    if arguments.input_rows or arguments.input_in_place:
        raise InvalidArgumentError("the programs that explain compares take a whole input: leave out the option")
    return Options(arguments.optimize, arguments.weights, arguments.decode, **memory_of(arguments))


def _on_host(arguments: argparse.Namespace, options: Options) -> Measure:
    from twinfer.bench.explain.on_host import ledger_on_host

    return lambda source, told: ledger_on_host(source, options, arguments.seed, arguments.seconds, told)


def _on_board(card: Any, arguments: argparse.Namespace, options: Options) -> Measure:
    from twinfer.bench.explain.on_target import ledger_on

    def measure(source: Source, told: Callable[[float], None]) -> Ledger:
        note_unused_storage(source, [card.target], [options])
        return ledger_on(source, card, options, arguments.seed, told)

    return measure


COMMAND = Command("explain", ABOUT, EXAMPLES, add_arguments, run, more=STATUS)
