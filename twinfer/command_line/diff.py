"""``twinfer diff``."""

from __future__ import annotations

import argparse
import json
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from twinfer.command_line.command import Command
from twinfer.command_line.options import TARGET, add_programs, options_of, write_json
from twinfer.command_line.targets import card, need_tools
from twinfer.runtime.errors import InvalidArgumentError

if TYPE_CHECKING:
    from twinfer.bench.explain.explain import Progress
    from twinfer.bench.report.document import Report

ABOUT = "show what changed between two models, sets of options, versions, or reports"
EXAMPLES = (
    "old.tflite new.tflite --target cortex-m4",
    'vww_int8 --target cortex-m4 --with="--memory layers"',
    "before.json after.html -o diff.html",
)

#: The files of ``twinfer report``.
_REPORTS = (".json", ".html")


def add_arguments(command: argparse.ArgumentParser) -> None:
    about = "a model, as for report, or a report: the .json or .html file of twinfer report"
    command.add_argument("a", metavar="A", help=about)
    command.add_argument("b", metavar="B", nargs="?", help="another one (default: A, for --with)")
    about = "options of B alone, as one word: --with='--memory layers'"
    command.add_argument("--with", dest="b_options", metavar="OPTIONS", default="", help=about)
    command.add_argument("--target", default="host", help=f"where models are measured: {TARGET} (default: host)")
    command.add_argument("-o", "--output", metavar="FILE", help="write a page, too: one .html file that needs no other")
    command.add_argument("--json", metavar="FILE", help="write the figures to FILE, too; - for standard output alone")
    add_programs(command)


def run(arguments: argparse.Namespace) -> int:
    from twinfer.bench.models.source import file_of
    from twinfer.bench.page.page import need_library
    from twinfer.bench.report.diff import diff_html, diff_tables, difference
    from twinfer.command_line.terminal import progress, show
    from twinfer.runtime.read.files import check_places, write_text

    second = _second(arguments)
    models = arguments.a, second.b or arguments.a
    read = (*map(file_of, models), arguments.target, second.target)
    check_places((arguments.output, arguments.json), inputs=read)
    if arguments.output:
        need_library()
    with progress(2) as told:
        a = _report(models[0], arguments, partial(told, 0, "a"))
        b = _report(models[1], second, partial(told, 1, "b"))
    diff = difference(a, b)
    if arguments.json:
        write_json(arguments.json, diff)
    if arguments.output:
        write_text(arguments.output, diff_html(diff))
    if arguments.json != "-":
        show(diff_tables(diff))
    return 0


def _second(arguments: argparse.Namespace) -> argparse.Namespace:
    """The arguments for B: those for A but for ``--with``. InvalidArgumentError if nothing could differ."""
    if arguments.b is None and not arguments.b_options:
        raise InvalidArgumentError("a model does not differ from itself: name a second one, or options with --with")
    parser = _Parser(prog="--with", add_help=False)
    parser.add_argument("--target")
    add_programs(parser)
    parser.set_defaults(**vars(arguments))
    try:
        words = shlex.split(arguments.b_options)
    except ValueError as error:
        raise InvalidArgumentError(f"--with {arguments.b_options}: {error}") from None
    own = parser.parse_args(words)
    if arguments.b_options and _is_report(own.b or own.a):
        raise InvalidArgumentError(f"--with {arguments.b_options}: {own.b or own.a} is a report, its options are fixed")
    return own


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidArgumentError(f"--with: {message}")


def _is_report(given: str) -> bool:
    return Path(given).suffix.lower() in _REPORTS


def _report(given: str, arguments: argparse.Namespace, progress: Progress) -> Report:
    """A report from its file, or made from a model."""
    if _is_report(given):
        return _read(given)
    from twinfer.bench.explain.explain import Wanted
    from twinfer.bench.models.source import load_with
    from twinfer.bench.report.document import report_of

    board = card(arguments.target)
    need_tools([board])
    options = options_of(arguments)
    source = load_with(given, arguments.io)
    return report_of(source, board, options, Wanted(arguments.seed, arguments.seconds), progress)


def _read(path: str) -> Report:
    """The document of a report's file; InvalidArgumentError if it is none of this version's."""
    from twinfer.bench.page.page import data_of
    from twinfer.bench.report.document import KIND, SCHEMA, Report
    from twinfer.runtime.read.files import reading

    with reading(path, "a report"):
        text = Path(path).read_text(encoding="utf-8")
        document: Any = data_of(text) if path.lower().endswith(".html") else json.loads(text)
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise InvalidArgumentError(f"{path} is no report: make one with twinfer report MODEL -o {path}")
    if document.get("schema") != SCHEMA:
        own = document.get("schema")
        raise InvalidArgumentError(f"{path} has schema {own}, this version reads {SCHEMA}: make the report anew")
    return Report(document)


COMMAND = Command("diff", ABOUT, EXAMPLES, add_arguments, run)
