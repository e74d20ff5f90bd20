"""A subcommand: its name, its help, its arguments, and what it does."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from twinfer.command_line.options import add_limits, add_operators
from twinfer.runtime.errors import TwinferError

#: Exit statuses: results differ that must be equal, wrong usage or input, Ctrl-C, nobody reads the output. Good is 0.
EXIT_DIFFERS, EXIT_USAGE, EXIT_INTERRUPT, EXIT_PIPE = 1, 2, 130, 141


@dataclass(frozen=True)
class Command:
    """One subcommand.

    ``about`` is one sentence without capital and full stop; ``examples`` are command lines behind "twinfer NAME";
    ``run`` returns the exit status; ``more`` is text below the examples.
    """

    name: str
    about: str
    examples: tuple[str, ...]
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    more: str = ""

    def add_to(self, commands: Any) -> None:
        """Add it to the subparsers of the whole command line."""
        command: argparse.ArgumentParser = commands.add_parser(
            self.name,
            help=self.about,
            description=f"{self.about[0].upper()}{self.about[1:]}.",
            epilog="\n".join(["examples:", *(f"  twinfer {self.name} {line}".rstrip() for line in self.examples)])
            + self.more,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.add_arguments(command)
        add_operators(command)
        add_limits(command)
        command.set_defaults(run=self.run)


def complain(message: str) -> int:
    """Write the message to standard error; returns the exit status of wrong usage or input."""
    from twinfer.command_line.terminal import note

    note(message)
    return EXIT_USAGE


def complain_of(model: str, error: TwinferError) -> int:
    """Complain with the error's message, behind the model's name unless it begins with that."""
    return complain(str(error) if str(error).startswith(f"{model}: ") else f"{model}: {error}")


def interrupted(missing: Sequence[str], *, written: bool = True) -> int:
    """Say after Ctrl-C what is missing from what was shown and written; returns the exit status."""
    from twinfer.command_line.terminal import note

    nothing = "" if written else "; nothing is finished, so nothing is written"
    note(f"interrupted; missing: {', '.join(missing)}{nothing}")
    return EXIT_INTERRUPT
