"""``twinfer solve``: the planner of arenas on its own, for problems as CSV in the format of minimalloc."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from typing import TYPE_CHECKING

from twinfer.command_line.command import EXIT_DIFFERS, Command

if TYPE_CHECKING:
    from twinfer.runtime.plan.arena import Block

ABOUT = "place blocks of memory by their live ranges, read from CSV, in as few bytes as possible"
EXAMPLES = ("problem.csv -o solution.csv", "problem.csv --capacity 1048576 --exact")
STATUS = """

Columns as in minimalloc's files: id, lower, upper, size and, if wanted, alignment. A block is live from step lower to
before step upper, or from start to end, if these are the columns. The solution has the same columns and offset.

exit status: 0 placed, 1 not within --capacity"""

NEEDED = ("id", "lower", "upper", "size")

#: Other names of columns: those of minimalloc's benchmarks.
ALIASES = {"buffer": "id", "buffer_id": "id", "start": "lower", "begin": "lower", "end": "upper"}


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("problem", metavar="PROBLEM.csv", help="the blocks, a row each; - for standard input")
    command.add_argument("-o", "--output", metavar="FILE", default="-", help="the solution (default: standard output)")
    command.add_argument("--capacity", metavar="BYTES", type=int, help="stop with status 1 if more bytes are needed")
    command.add_argument("--exact", action="store_true", help="ask CP-SAT, too, where the usual search gives up")


def run(arguments: argparse.Namespace) -> int:
    from twinfer.command_line.terminal import note
    from twinfer.runtime.plan.arena import height, lower_bound, place
    from twinfer.runtime.read.files import read_bytes, write_text

    name = "standard input" if arguments.problem == "-" else arguments.problem
    content = sys.stdin.buffer.read() if arguments.problem == "-" else read_bytes(arguments.problem)
    rows, blocks = _blocks(name, content)
    placement = place(blocks, exact=arguments.exact)
    needed, bound = height(blocks, placement.offsets), lower_bound(blocks)
    known = "no placement needs less" if placement.proven else f"lower bound {bound:,}"
    note(f"{len(blocks)} blocks in {needed:,} bytes; {known}")
    if arguments.capacity is not None and needed > arguments.capacity:
        return EXIT_DIFFERS
    text = io.StringIO()
    writer = csv.DictWriter(text, [*(key for key in rows[0] if key != "offset"), "offset"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "offset": offset} for row, offset in zip(rows, placement.offsets, strict=True))
    if arguments.output == "-":
        sys.stdout.write(text.getvalue())
    else:
        write_text(arguments.output, text.getvalue())
    return 0


def _blocks(name: str, content: bytes) -> tuple[list[dict[str, str]], list[Block]]:
    """The rows of a problem, and the block that each describes. InvalidArgumentError names the line that is wrong."""
    from twinfer.runtime.errors import InvalidArgumentError
    from twinfer.runtime.plan.arena import Block

    try:
        reader = csv.DictReader(content.decode("utf-8-sig").splitlines(), strict=True)
        rows = list(reader)
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidArgumentError(f"{name} is no CSV: {error}") from None
    own = {ALIASES.get(key, key): key for key in reader.fieldnames or ()}
    missing = [key for key in NEEDED if key not in own]
    if "gaps" in own:
        raise InvalidArgumentError(
            f"{name} has a column 'gaps': blocks must be live from their first step to their last"
        )
    if missing or not rows:
        raise InvalidArgumentError(f"{name} has no column {missing[0]!r}" if missing else f"{name} has no blocks")
    blocks = list[Block]()
    for number, row in enumerate(rows, 2):
        try:
            lower, upper, size = (int(row[own[key]]) for key in NEEDED[1:])
            alignment = int(row.get("alignment") or 1)
            upper += own["upper"] == "end"  # that is the last step
        except (TypeError, ValueError):
            raise InvalidArgumentError(f"{name}, line {number}: lower, upper, size must be whole numbers") from None
        if None in row or not 0 <= lower < upper or size < 0 or alignment < 1 or max(upper, size, alignment) >= 1 << 62:
            wanted = "0 <= lower < upper, 0 <= size and 1 <= alignment, each in a column of its own"
            raise InvalidArgumentError(f"{name}, line {number}: needed are {wanted}")
        blocks.append(Block(size, lower, upper - 1, alignment))
    return rows, blocks


COMMAND = Command("solve", ABOUT, EXAMPLES, add_arguments, run, STATUS)
