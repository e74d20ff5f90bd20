"""``twinfer boards``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from twinfer.command_line.command import EXIT_DIFFERS, Command
from twinfer.command_line.foreign import add_shapes, is_foreign, need_no_shapes, preview, preview_tables
from twinfer.command_line.options import MODEL, add_io, write_json

if TYPE_CHECKING:
    from twinfer.aot.build.catalogue import Board

ABOUT = "show real boards, or which of them a model fits, with which options, and about how long it takes there"
EXAMPLES = ("", "kws_int8", "model.tflite --board nucleo,pico --json", "model.onnx --board my_board.toml")
STATUS = "\n\nexit status: 0 the model fits a board, 1 it fits none"


def add_arguments(command: argparse.ArgumentParser) -> None:
    about = f"{MODEL}; or a .onnx, .keras or .pt2 file, for what it would become; only the boards if none is given"
    command.add_argument("model", nargs="?", metavar="MODEL", help=about)
    about = "only these, with commas: a board's name, a word in name, maker, chip or core, or a .toml file"
    command.add_argument("--board", metavar="BOARDS", default="", help=about)
    add_io(command)
    add_shapes(command)
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print it as JSON")
    form.add_argument("--markdown", action="store_true", help="print the boards as a page of Markdown")


def run(arguments: argparse.Namespace) -> int:
    from twinfer.command_line.show.boards import board_table, describe, page
    from twinfer.command_line.terminal import show

    chosen = boards_of(arguments.board)
    if arguments.model is not None:
        return _model(arguments, chosen)
    if arguments.json:
        write_json("-", describe(chosen))
    elif arguments.markdown:
        sys.stdout.write(page(chosen))
    else:
        show(board_table(chosen))
    return 0


def boards_of(given: str) -> list[Board]:
    """The boards that --board names, all if it is empty; InvalidArgumentError for a word that is in none."""
    from twinfer.aot.build.catalogue import board, boards, known_board
    from twinfer.command_line.targets import words

    chosen: list[Board] = []
    for word in words(given):
        fitting = [each for each in boards() if word.lower() in _told(each)]
        chosen += [board(word)] if not fitting or known_board(word) is not None else fitting
    return list(dict.fromkeys(chosen)) if given else list(boards())


def _told(board: Board) -> str:
    """What a word of --board is looked for in."""
    return " ".join((board.name, board.maker, board.chip, board.core_name, board.base)).lower()


def _model(arguments: argparse.Namespace, chosen: Sequence[Board]) -> int:
    from twinfer.aot.build.matching import matches
    from twinfer.bench.models.source import Source, load_with, name_of
    from twinfer.command_line.show.boards import described_matches, match_tables
    from twinfer.command_line.terminal import show
    from twinfer.runtime.errors import InvalidArgumentError
    from twinfer.runtime.passes.ends import with_io

    if arguments.markdown:
        raise InvalidArgumentError("--markdown is for the page of all boards: leave MODEL out")
    if is_foreign(arguments.model):
        found = preview(arguments)
        if found.graph is None:
            show(preview_tables(name_of(arguments.model), found))
            return EXIT_DIFFERS
        source = Source(name_of(arguments.model), with_io(found.graph, arguments.io))
    else:
        need_no_shapes(arguments)
        source = load_with(arguments.model, arguments.io)
    told = matches(source.graph, chosen)
    if arguments.json:
        write_json("-", described_matches(source.name, told))
    else:
        show(match_tables(source.name, told))
    return 0 if any(match.fit for match in told) else EXIT_DIFFERS


COMMAND = Command("boards", ABOUT, EXAMPLES, add_arguments, run, more=STATUS)
