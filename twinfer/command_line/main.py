"""The whole command line.

Exit status: 0 good, 1 results differ that must be equal, 2 usage or input, 130 Ctrl-C, 141 nobody reads the output.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

from twinfer.command_line import (
    bench,
    boards,
    compile,
    convert,
    demo,
    diff,
    explain,
    fit,
    inspect,
    ops,
    optimize,
    report,
    run,
    search,
    solve,
    stream,
    tflm,
    tune,
    verify,
    weights,
)
from twinfer.command_line.command import EXIT_INTERRUPT, EXIT_PIPE, complain
from twinfer.command_line.options import limit, register_operators
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.printable import printable

#: The subcommands, in the order that ``--help`` shows.
COMMANDS = tuple(
    module.COMMAND
    for module in (
        bench,
        explain,
        report,
        diff,
        inspect,
        ops,
        boards,
        fit,
        run,
        verify,
        compile,
        weights,
        convert,
        optimize,
        stream,
        search,
        tune,
        tflm,
        demo,
        solve,
    )
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    try:
        from twinfer.command_line.terminal import note, plain_where_needed

        plain_where_needed()
        arguments = parser().parse_args(argv)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = lambda message, *_, **__: note(f"warning: {message}")
            with limit(arguments):
                register_operators(arguments)
                status: int = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except TwinferError as error:
        return complain(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the flush at exit fails, too
        return EXIT_PIPE
    except KeyboardInterrupt:
        complain("interrupted")
        return EXIT_INTERRUPT


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = _Parser(
        prog="twinfer",
        description="Neural networks for small machines: a .tflite model, interpreted and compiled, the same bits.",
        epilog="twinfer COMMAND --help says more, with examples.",
    )
    top.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    subparsers = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_to(subparsers)
    return top


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        import twinfer

        sys.stdout.write(f"twinfer {twinfer.__version__}\n")
        parser.exit()
