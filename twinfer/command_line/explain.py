"""``twinfer explain``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from twinfer.command_line.command import EXIT_DIFFERS, Command, interrupted
from twinfer.command_line.options import MODEL, add_programs, add_targets, note_unused_storage, options_of, write_json
from twinfer.command_line.targets import cards, need_tools, words
from twinfer.runtime.errors import InvalidArgumentError

if TYPE_CHECKING:
    from twinfer.aot.build.targets import Card
    from twinfer.bench.explain.explain import Explanation

ABOUT = "say what compiling gains over interpreting on a model: for each layer, and how much of it by which cause"
EXAMPLES = (
    "kws_int8",
    "kws_int8 --target cortex-m4,cortex-m55 --ladder",
    "model.tflite --target cortex-m4 --ladder --techniques folding,packing,instructions",
    "model.tflite --target cortex-m4 --json -",
)
STATUS = "\n\nexit status: 0 good, 1 the programs differ in a result, 2 a model cannot be run"


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=MODEL)
    add_targets(command)
    add_programs(command)
    about = "build the model with techniques added one after the other, and with each left out, too"
    command.add_argument("--ladder", action="store_true", help=about)
    about = "techniques for --ladder, in this order, with commas (default: all that a compiled program there has)"
    command.add_argument("--techniques", metavar="LIST", help=about)
    command.add_argument("--html", metavar="FILE", help="write a page, too: one .html file that needs no other")
    command.add_argument("--json", metavar="FILE", help="write the figures to FILE, too; - for standard output alone")


def run(arguments: argparse.Namespace) -> int:
    from twinfer.bench.explain.explain import Wanted, explain
    from twinfer.bench.models.source import file_of, load_with
    from twinfer.bench.page.page import need_library
    from twinfer.command_line.terminal import progress
    from twinfer.runtime.read.files import check_places

    chosen, options = cards(arguments.target), options_of(arguments)
    need_tools(chosen)
    techniques = [_techniques(arguments, card) for card in chosen]
    if arguments.html:
        need_library()
    check_places((arguments.json, arguments.html), inputs=(file_of(arguments.model), *words(arguments.target)))
    source = load_with(arguments.model, arguments.io)
    every: list[Explanation] = []
    try:
        with progress(len(chosen)) as told:
            for i, (card, names) in enumerate(zip(chosen, techniques, strict=True)):
                note_unused_storage(source, [card.target] if card else [], [options])
                wanted = Wanted(arguments.seed, arguments.seconds, names)
                for part in explain(source, card, options, wanted, partial(told, i, arguments.model)):
                    every[i:] = [part]  # each is more of this target, in place of the one before
    except KeyboardInterrupt:
        missing = [f"{arguments.model} on {'host' if card is None else card.name}" for card in chosen[len(every) :]]
        if every and arguments.ladder and every[-1].ladder is None:
            missing.insert(0, f"the ladder on {every[-1].ledger.target}")
        if every:
            _write(arguments, document(every, len(chosen)) | {"interrupted": True}, every)
        return interrupted(missing, written=bool(every))
    _write(arguments, document(every, len(chosen)), every)
    return 0 if all(each.same_bits for each in every) else EXIT_DIFFERS


def _techniques(arguments: argparse.Namespace, card: Card | None) -> Sequence[str]:
    """The techniques of the ladder; none if it was not asked for."""
    from twinfer.bench.explain.techniques import chosen
    from twinfer.runtime.run import isa

    if not arguments.ladder:
        if arguments.techniques is not None:
            raise InvalidArgumentError("--techniques says what the ladder has: give --ladder, too")
        return ()
    return chosen(arguments.techniques, isa.this_computer() if card is None else card.target)


def _write(arguments: argparse.Namespace, told: dict[str, Any], every: Sequence[Explanation]) -> None:
    from twinfer.bench.explain.ladder import ladder_tables
    from twinfer.bench.explain.ledger import ledger_tables
    from twinfer.bench.report.html import explain_html
    from twinfer.command_line.terminal import show
    from twinfer.runtime.read.files import write_text

    if arguments.json:
        write_json(arguments.json, told)
    if arguments.html:
        write_text(arguments.html, explain_html([each.document for each in every]))
    for each in every if arguments.json != "-" else ():
        show(ledger_tables(each.ledger))
        show(ladder_tables(each.ladder) if each.ladder else ())


def document(every: Sequence[Explanation], asked: int) -> dict[str, Any]:
    """The JSON document: that of the target; if several were asked for, their list, as ``ledgers``."""
    from twinfer.bench.explain.ledger import SCHEMA

    return every[0].document if asked == 1 else {"schema": SCHEMA, "ledgers": [each.document for each in every]}


COMMAND = Command("explain", ABOUT, EXAMPLES, add_arguments, run, more=STATUS)
