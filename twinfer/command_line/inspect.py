"""``twinfer inspect``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from twinfer.command_line.command import EXIT_DIFFERS, Command
from twinfer.command_line.foreign import add_shapes, is_foreign, need_no_shapes, preview, preview_tables
from twinfer.command_line.options import MODEL, TARGET, add_apart, add_io, apart_of, write_json

if TYPE_CHECKING:
    from twinfer.bench.models.source import Source
    from twinfer.runtime.plan.plan import Plan
    from twinfer.runtime.target import Target

EXAMPLES = (
    "kws_int8",
    "model.tflite --target cortex-m4 --json",
    "vww_int8 --target cortex-m4 --memory rows",
    "kws_int8 --target cortex-m4 --trace kws.html",
)


def add_arguments(command: argparse.ArgumentParser) -> None:
    about = f"{MODEL}; or a .onnx, .keras or .pt2 file, for what convert would make of it"
    command.add_argument("model", metavar="MODEL", help=about)
    add_shapes(command)
    about = f"what to plan for: generic (any 32-bit machine), native (this CPU), {TARGET} (default: host)"
    command.add_argument("--target", default="host", help=about)
    about = "why the memory is so large, for a plan by layers, by rows, or the default (auto), and what would need less"
    command.add_argument("--memory", choices=["auto", "layers", "rows"], nargs="?", const="auto", help=about)
    about = "with --memory: for an input that is given row by row"
    command.add_argument("--input-rows", action="store_true", help=about)
    about = "with --memory: for an input that is read where the caller has it"
    command.add_argument("--input-in-place", action="store_true", help=about)
    add_apart(command)
    add_io(command)
    about = "write the model after every stage, from the file to C, as a page"
    command.add_argument("--trace", metavar="FILE.html", help=about)
    command.add_argument("--json", action="store_true", help="print it as JSON")


def run(arguments: argparse.Namespace) -> int:
    from twinfer.bench.memory.certificate import certificate, certificate_document
    from twinfer.bench.models.source import Source, load_with, name_of
    from twinfer.command_line.show.description import describe
    from twinfer.command_line.show.memory import memory_tables
    from twinfer.command_line.show.model import render
    from twinfer.command_line.targets import machine
    from twinfer.command_line.terminal import console, show
    from twinfer.runtime.options import Options
    from twinfer.runtime.passes.ends import with_io

    target, _ = machine(arguments.target)
    found = preview(arguments) if is_foreign(arguments.model) else None
    if found is not None and found.graph is None:
        show(preview_tables(name_of(arguments.model), found))
        return EXIT_DIFFERS
    if found is None or found.graph is None:
        need_no_shapes(arguments)
        source = load_with(arguments.model, arguments.io)
    else:
        source = Source(name_of(arguments.model), with_io(found.graph, arguments.io))
    if arguments.trace:
        from twinfer.debug import trace
        from twinfer.runtime.read.files import check_places, write_text

        check_places([arguments.trace], inputs=[arguments.model])
        write_text(arguments.trace, trace(source.name, source.graph, target))
        return 0
    plan, reason = planned(source, target)
    certified = None
    if arguments.memory or arguments.input_rows or arguments.input_in_place or arguments.weights_as != "linked":
        inputs = {"input_rows": arguments.input_rows, "input_in_place": arguments.input_in_place}
        options = Options(memory=arguments.memory or "auto", **inputs, **apart_of(arguments))
        certified = certificate(source.graph, target, options)
        plan = certified.plan
    if arguments.json:
        about = describe(source.name, source.graph, plan, reason)
        write_json("-", about | (certificate_document(certified) if certified else {}))
    elif certified:
        show(memory_tables(source.name, certified, console().width))
    else:
        show(render(source.name, source.graph, plan, reason, console().width))
    return 0


def planned(source: Source, target: Target) -> tuple[Plan | None, str]:
    """The plan for a target, or the reason why there is none."""
    from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
    from twinfer.runtime.plan.make import make_plan

    try:
        return make_plan(source.graph, target), ""
    except (UnsupportedOperatorError, ModelError) as error:
        return None, str(error)


ABOUT = "show a model: operators, shapes, quantisation, sizes, and a map of its arena"
COMMAND = Command("inspect", ABOUT, EXAMPLES, add_arguments, run)
