"""``twinfer report``."""

from __future__ import annotations

import argparse
from functools import partial

from twinfer.command_line.command import EXIT_DIFFERS, Command
from twinfer.command_line.options import MODEL, TARGET, add_programs, note_unused_storage, options_of, write_json
from twinfer.command_line.targets import card, need_tools
from twinfer.runtime.errors import InvalidArgumentError

ABOUT = "make one page about a model on a target: what takes time, RAM and flash, why, and what to change"
EXAMPLES = ("vww_int8 --target cortex-m4 -o report.html", "model.tflite -o report.html --json report.json --no-ladder")
STATUS = "\n\nexit status: 0 good, 1 the programs differ in a result, 2 the model cannot be run"


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=MODEL)
    command.add_argument("--target", default="host", help=f"where: {TARGET} (default: host)")
    command.add_argument("-o", "--output", metavar="FILE", help="the page: one .html file that needs no other")
    command.add_argument("--json", metavar="FILE", help="write the figures to FILE, too; - for standard output alone")
    about = "build the model with techniques added one after the other, and with each left out (default: yes)"
    command.add_argument("--ladder", action=argparse.BooleanOptionalAction, default=True, help=about)
    add_programs(command)


def run(arguments: argparse.Namespace) -> int:
    from twinfer.bench.explain.explain import Wanted
    from twinfer.bench.explain.techniques import chosen
    from twinfer.bench.models.source import file_of, load_with
    from twinfer.bench.page.page import need_library
    from twinfer.bench.report.document import report_of
    from twinfer.bench.report.html import report_html
    from twinfer.bench.report.summary import summary
    from twinfer.command_line.terminal import progress, say
    from twinfer.runtime.read.files import check_places, write_text
    from twinfer.runtime.run.isa import this_computer

    if not (arguments.output or arguments.json):
        raise InvalidArgumentError("say where the report goes: -o report.html, or --json FILE for its figures")
    board, options = card(arguments.target), options_of(arguments)
    need_tools([board])
    if arguments.output:
        need_library()
    inputs = (file_of(arguments.model), arguments.target)
    check_places((arguments.output, arguments.json), inputs=inputs)
    source = load_with(arguments.model, arguments.io)
    note_unused_storage(source, [board.target] if board else [], [options])
    techniques = chosen(None, board.target if board else this_computer()) if arguments.ladder else ()
    wanted = Wanted(arguments.seed, arguments.seconds, techniques)
    with progress(1) as told:
        document = report_of(source, board, options, wanted, partial(told, 0, source.name))
    if arguments.json:
        write_json(arguments.json, document)
    if arguments.output:
        write_text(arguments.output, report_html(document))
    if arguments.json != "-":
        say("\n".join(summary(document)))
    return 0 if document["same_bits"] else EXIT_DIFFERS


COMMAND = Command("report", ABOUT, EXAMPLES, add_arguments, run, more=STATUS)
