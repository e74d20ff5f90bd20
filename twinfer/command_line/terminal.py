"""The terminal: tables, which survive pipes and old encodings, and a progress bar, which stays out of them."""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from twinfer.bench.measure.grid import harmless
from twinfer.runtime.printable import printable

#: Characters per line where the width of the output is unknown.
PIPE_WIDTH = 160

#: Seconds between two drawings of the progress bar.
REFRESH_S = 0.1

#: The time left follows from the speed over so many seconds: steps may take minutes, and differ.
SPEED_S = 3600

#: Spaces before the end of a line, and the codes of colours among them.
_SPACES = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)

_ASCII = str.maketrans("µ×≈≠→█▓▒░·◀…━─", "ux~!>#=s-.<.--")


def say(line: str, *, error: bool = False) -> None:
    """Write a line (or several) to standard output, or to standard error."""
    (sys.stderr if error else sys.stdout).write(f"{printable(line)}\n")


def note(line: str) -> None:
    """Write a line about the run itself to standard error."""
    say(f"twinfer: {line}", error=True)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # main ends quietly; rich would end with status 1, which means something else here


def console() -> Console:
    """Standard output: colours on a terminal only (and not under NO_COLOR), wide lines in a pipe."""
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return _Console(width=PIPE_WIDTH if piped else None, highlight=False, emoji=False, soft_wrap=False, markup=False)


def show(parts: Iterable[RenderableType]) -> None:
    """Print tables, each after a blank line unless it is the first, and texts and titles without breaking their lines.

    No line ends with spaces.
    """
    out = console()
    for i, part in enumerate(parts):
        with out.capture() as captured:
            if isinstance(part, Table) and part.title:
                out.print(*[""][: bool(i)], Text(str(part.title), style="bold"), sep="\n", soft_wrap=True)
                part.title = None
            out.print(harmless(part, keep="\n") if isinstance(part, Text) else part, soft_wrap=isinstance(part, Text))
        sys.stdout.write(_SPACES.sub(r"\1", captured.get()))


def plain_where_needed() -> None:
    """Make standard output and error replace characters that their encoding lacks by near ASCII ones."""
    codecs.register_error("twinfer", _nearest)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="twinfer")


def _nearest(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_ASCII)
    return text.encode("ascii", "replace").decode(), error.end


@contextmanager
def progress(total: int) -> Iterator[Callable[[int, str, float], None]]:
    """A bar on standard error if that is a terminal: ``told(done, what, share of what)``, done of ``total``.

    It also shows the time taken and the time left. It is only drawn when it is told something, so that it takes no time
    from what is measured.
    """
    err = Console(stderr=True)
    if not err.is_terminal:
        yield lambda done, what, share: None
        return
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    columns = (TextColumn("{task.description:<24}", markup=False), BarColumn(), *times)
    how = {"transient": True, "auto_refresh": False, "speed_estimate_period": SPEED_S}
    with Progress(*columns, console=err, **how) as bar:  # type: ignore[arg-type]
        task, drawn = bar.add_task("", total=total), 0.0

        def told(done: int, what: str, share: float) -> None:
            nonlocal drawn
            if time.monotonic() - drawn > REFRESH_S or not share:
                drawn = time.monotonic()
                bar.update(task, completed=done + share, description=printable(what, keep=""), refresh=True)

        yield told
