"""The options of programs that are measured whole: what explain, report and diff share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from twinfer.command_line.options import (
    OPTIMIZE,
    add_io,
    add_memory,
    add_optimize,
    memory_of,
    natural,
    positive,
)
from twinfer.command_line.storage import add_storage
from twinfer.runtime.errors import InvalidArgumentError

if TYPE_CHECKING:
    from twinfer.runtime.options import Options


def add_programs(command: argparse.ArgumentParser) -> None:
    """How programs are planned, printed and measured."""
    add_optimize(command, f"of compiled code, {OPTIMIZE}")
    add_storage(command)
    add_memory(command)
    add_io(command)
    about = "time to measure on this computer (default: 5)"
    command.add_argument("--seconds", type=positive(float), default=5.0, help=about)
    command.add_argument("--seed", type=natural, default=0, help="seed of the inputs (default: 0)")


def options_of(arguments: argparse.Namespace) -> Options:
    """The options of plan and C that ``add_programs`` took; InvalidArgumentError for inputs that are not whole."""
    from twinfer.runtime.options import Options

    if arguments.input_rows or arguments.input_in_place:
        raise InvalidArgumentError("the programs that are compared take a whole input: leave out the option")
    return Options(arguments.optimize, arguments.weights, arguments.decode, **memory_of(arguments))
