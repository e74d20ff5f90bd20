"""``twinfer compile``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from twinfer.command_line.command import Command
from twinfer.command_line.options import MODEL, OPTIMIZE, TARGET, add_io, add_memory, add_optimize, memory_of
from twinfer.command_line.storage import add_storage, unused_storage

if TYPE_CHECKING:
    from twinfer.aot.print.emit import Project

EXAMPLES = (
    "model.tflite --target cortex-m4 --optimize size -o model_c",
    "kws_int8 -o kws && make -C kws test",
)


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=MODEL)
    about = f"what for: generic (any 32-bit machine), native (this CPU), {TARGET} (default: host)"
    command.add_argument("--target", default="host", help=about)
    command.add_argument(
        "-o", "--output", required=True, metavar="DIR", help="folder to write; an earlier run's is replaced"
    )
    command.add_argument("--name", help="what functions and files are called (default: after the model)")
    command.add_argument(
        "--mode",
        choices=["compiled", "interpreted"],
        default="compiled",
        help="one function per layer, or shared kernels called from a table (default: compiled)",
    )
    add_optimize(command, OPTIMIZE)
    add_memory(command)
    add_io(command)
    add_storage(command)
    about = "spread the arena out, and let the emitted code tell a layer that writes memory not its own"
    command.add_argument("--guard", action="store_true", help=about)


def run(arguments: argparse.Namespace) -> int:
    from twinfer.aot.build.project import write_project
    from twinfer.aot.print.literals import identifier
    from twinfer.bench.models.source import file_of, load_with
    from twinfer.command_line.targets import machine
    from twinfer.command_line.terminal import note, say
    from twinfer.runtime.options import Options
    from twinfer.runtime.plan.make import make_plan
    from twinfer.runtime.read.files import check_folder

    check_folder(arguments.output, inputs=(file_of(arguments.model), arguments.target))
    source = load_with(arguments.model, arguments.io)
    target, board = machine(arguments.target)
    options = Options(
        arguments.optimize,
        arguments.weights,
        arguments.decode,
        arguments.mode,
        arguments.guard,
        **memory_of(arguments),
    )
    plan = make_plan(source.graph, target, options)
    name = arguments.name or identifier(source.name)
    project = write_project(plan, name, arguments.output, sha256=source.sha256, card=board)
    for line in unused_storage(plan):
        note(line)
    say(f"{arguments.output}: {_sizes(project, plan.lower_bound_bytes)}; try: make -C {arguments.output} test")
    return 0


def _sizes(project: Project, lower_bound_bytes: int) -> str:
    arena = f"arena {project.plan.arena_bytes:,} bytes (lower bound {lower_bound_bytes:,})"
    stack = "" if project.stack_bytes is None else f", stack {project.stack_bytes:,} bytes at most"
    return f"{len(project.layers)} layers, {project.constants.nbytes:,} constant bytes, {arena}{stack}"


COMMAND = Command("compile", "write a model as a folder of C that builds on its own", EXAMPLES, add_arguments, run)
