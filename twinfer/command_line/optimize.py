"""``twinfer optimize``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from twinfer.command_line.command import EXIT_DIFFERS, Command
from twinfer.command_line.convert import add_reading, passes_of
from twinfer.command_line.options import files_read, shapes_of, source_of

if TYPE_CHECKING:
    from rich.table import Table

    from twinfer.runtime.graph import Graph

EXAMPLES = ("model.tflite -o smaller.tflite", "model.onnx -o model.tflite --channels-last")


def add_arguments(command: argparse.ArgumentParser) -> None:
    about = "a .tflite, .onnx, .keras or .pt2 (torch.export) file, or the name of a built-in model"
    command.add_argument("model", metavar="IN", help=about)
    command.add_argument("-o", "--output", required=True, metavar="OUT", help="the .tflite file to write")
    add_reading(command)


def run(arguments: argparse.Namespace) -> int:
    from twinfer.command_line.arrays import constants_of
    from twinfer.command_line.terminal import note, say, show
    from twinfer.converter.check import check
    from twinfer.converter.convert import conversion
    from twinfer.converter.source import open_source
    from twinfer.runtime.read.files import check_places, read_bytes, write_whole
    from twinfer.runtime.write.tflite import check_suffix, write

    model = open_source(arguments.model)
    check_places([arguments.output], inputs=files_read(arguments.model, model))
    check_suffix(arguments.output)
    how: dict[str, Any] = {"shapes": shapes_of(arguments.shape), "constants": constants_of(arguments.constant)}
    how |= {"channels_last": arguments.channels_last, "loops": arguments.loops, "passes": passes_of(arguments.passes)}
    made = conversion(source_of(model), **how)
    before, after = made.imported, made.graph
    checked = check(before, after, imported=before)
    if not checked.good:
        note(f"{arguments.output} is not written: {checked}")
        return EXIT_DIFFERS
    is_file = arguments.model.endswith(".tflite")
    given, written = read_bytes(arguments.model) if is_file else write(before), write(after)
    plain = is_file and not any(how[key] for key in ("shapes", "constants", "channels_last"))
    if plain and len(given) <= len(written) and not _customs(before) - _customs(after):
        note(f"{arguments.model} is as small as it gets: {arguments.output} is the same file")
        written, after = given, before
    write_whole(arguments.output, lambda file: file.write(written))
    show([_table((before, len(given)), (after, len(written)))])
    say(f"{arguments.output}: {checked}")
    return 0


def _customs(graph: Graph) -> set[str]:
    """Custom operators. Where they became others, the file may be larger: more runtimes run it."""
    from twinfer.runtime.graph import walk

    return {node.op for each in walk(graph) for node in each.nodes if ":" in node.op}


def _table(before: tuple[Graph, int], after: tuple[Graph, int]) -> Table:
    """What changed between two graphs and the bytes of their files."""
    from twinfer.bench.measure.report import table

    shown = table("", "<", "before", "after", "change")
    for (what, old), (_, new) in zip(_figures(*before), _figures(*after), strict=True):
        change = f"{100 * (new - old) / old:+.1f} %" if old and new != old else "-"
        shown.add_row(what, f"{old:,}", f"{new:,}", change)
    return shown


def _figures(graph: Graph, size: int) -> list[tuple[str, int]]:
    """What a model takes; the arena is that of a plan for this computer."""
    from twinfer.command_line.show.description import constant_bytes
    from twinfer.runtime.graph import walk
    from twinfer.runtime.plan.make import make_plan

    plan = make_plan(graph)
    operators = sum(len(each.nodes) for each in walk(graph))
    figures = {"operators": operators, "file bytes": size, "constant bytes": constant_bytes(graph)}
    return [*(figures | {"arena bytes": plan.arena_bytes, "multiply-accumulates": plan.macs}).items()]


ABOUT = "make a model smaller and faster with the same results: the passes of convert alone, no quantisation"
STATUS = "\n\nexit status: 0 it is written, 1 it would give other results and is not written"
COMMAND = Command("optimize", ABOUT, EXAMPLES, add_arguments, run, more=STATUS)
