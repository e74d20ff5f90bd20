"""``twinfer compile``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinfer.command_line.command import Command
from twinfer.command_line.options import (
    MODEL,
    OPTIMIZE,
    TARGET,
    add_apart,
    add_float,
    add_io,
    add_memory,
    add_optimize,
    add_storage,
    add_threads,
    apart_of,
    memory_of,
    unused_storage,
)

if TYPE_CHECKING:
    from twinfer.aot.build.targets import Card
    from twinfer.aot.print.emit import Project
    from twinfer.bench.models.source import Source
    from twinfer.runtime.plan.plan import Plan

#: Those of ``twinfer.aot.build.layout``, whose import takes longer.
LAYOUTS = ("plain", "cmake", "arduino", "zephyr", "idf", "platformio", "cmsis-pack", "esphome")

EXAMPLES = (
    "model.tflite --target cortex-m4 --optimize size -o model_c",
    "kws_int8 -o kws && make -C kws test",
    "kws_int8 vww_int8 --target cortex-m4 -o both",
    "kws_int8 --target cortex-m4 --layout arduino -o kws_int8",
)


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("models", metavar="MODEL", nargs="+", help=f"{MODEL}; several share kernels and an arena")
    about = f"what for: generic (any 32-bit machine), native (this CPU), {TARGET} (default: host)"
    command.add_argument("--target", default="host", help=about)
    command.add_argument(
        "-o", "--output", required=True, metavar="DIR", help="folder to write; an earlier run's is replaced"
    )
    about = "what functions and files are called; with several models, what they share (default: after model or folder)"
    command.add_argument("--name", help=about)
    command.add_argument(
        "--mode",
        choices=["compiled", "interpreted"],
        default="compiled",
        help="one function per layer, or shared kernels called from a table (default: compiled)",
    )
    about = "for which tool the folder is a library: plain has a Makefile and self-tests (default: plain)"
    command.add_argument("--layout", choices=LAYOUTS, default="plain", help=about)
    add_optimize(command, OPTIMIZE)
    add_memory(command)
    add_float(command)
    add_io(command)
    add_storage(command)
    add_apart(command)
    add_threads(command, "split large layers over so many threads: POSIX threads, or a pool of yours (NAME_parallel)")
    about = "check after every layer that it has used no memory but its own; layers then do not run row by row"
    command.add_argument("--guard", action="store_true", help=about)
    about = "begin and end arena and tensors at multiples of so many bytes, such as the cache lines of the machine"
    command.add_argument("--align", type=int, default=1, metavar="BYTES", help=about)
    about = "with --target native: use the kernels that twinfer tune has found to be fastest here"
    command.add_argument("--tuned", action="store_true", help=about)


def run(arguments: argparse.Namespace) -> int:
    from twinfer.bench.models.source import file_of, load_with
    from twinfer.command_line.targets import machine
    from twinfer.command_line.terminal import note, say
    from twinfer.runtime.errors import InvalidArgumentError
    from twinfer.runtime.options import Options
    from twinfer.runtime.plan.make import make_plan
    from twinfer.runtime.read.files import check_folder

    check_folder(arguments.output, inputs=(*map(file_of, arguments.models), arguments.target))
    sources = [load_with(model, arguments.io) for model in arguments.models]
    target, board = machine(arguments.target)
    if arguments.threads > 1 and (board is not None or arguments.layout != "plain"):
        raise InvalidArgumentError("--threads is for --target host, native or generic, and for --layout plain")
    target = target.with_alignment(arguments.align)
    kept = (arguments.optimize, arguments.weights, arguments.decode, arguments.mode, arguments.guard)
    memory = {**memory_of(arguments), **apart_of(arguments)}
    options = Options(*kept, **memory, tuned=arguments.tuned, floats=arguments.floats, threads=arguments.threads)
    plans = [make_plan(source.graph, target, options) for source in sources]
    projects = _write(arguments, sources, plans, board)
    for plan, project in zip(plans, projects, strict=True):
        for line in unused_storage(plan):
            note(line)
        named = "" if len(plans) == 1 else f"/{project.name}"
        arena = f"arena {project.plan.arena_bytes:,} bytes (lower bound {plan.lower_bound_bytes:,})"
        stack = "" if project.stack is None else f", stack {project.stack.nbytes:,} bytes at most"
        shown = f"{len(project.layers)} layers, {project.constants.nbytes:,} constant bytes, {arena}{stack}"
        then = (
            f"try: make -C {arguments.output} test" if arguments.layout == "plain" else "README.md says how to use it"
        )
        say(f"{arguments.output}{named}: {shown}; {then}")
    return 0


def _write(
    arguments: argparse.Namespace, sources: Sequence[Source], plans: Sequence[Plan], board: Card | None
) -> Sequence[Project]:
    """Write the folder: of one model, or of several with what they share."""
    from twinfer.aot.build.project import write_all, write_project
    from twinfer.aot.print.literals import identifier

    names = [identifier(source.name) for source in sources]
    how: dict[str, Any] = {"card": board, "layout": arguments.layout}
    if arguments.layout == "esphome":
        from twinfer.bench.tflm.wake_word import files

        pairs = zip([arguments.name or names[0]] if len(plans) == 1 else names, sources, strict=True)
        how["beside"] = {path: content for name, source in pairs for path, content in files(name, source).items()}
    if len(plans) == 1:
        name = arguments.name or names[0]
        return [write_project(plans[0], name, arguments.output, sha256=sources[0].sha256, **how)]
    group = arguments.name or identifier(Path(arguments.output).absolute().name)
    hashes = [source.sha256 for source in sources]
    return write_all(list(zip(names, plans, hashes, strict=True)), group, arguments.output, **how)


COMMAND = Command("compile", "write a model as a folder of C that builds on its own", EXAMPLES, add_arguments, run)
