"""The command ``twinfer``: a subcommand per job.

Exit status: 0 good, 1 results differ that must be equal, 2 usage or input, 130 Ctrl-C, 141 nobody reads the output.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from twinfer.cli_options import GUARD, MODEL, OPTIMIZE, TARGET, add_optimize, natural, positive, write_json
from twinfer.cli_storage import add_storage, add_storages
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.printable import printable

EXIT_DIFFERS, EXIT_USAGE, EXIT_INTERRUPT, EXIT_PIPE = 1, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    try:
        from twinfer.terminal import plain_where_needed

        plain_where_needed()
        arguments = parser().parse_args(argv)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = _warn
            status: int = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except TwinferError as error:
        return _fail(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the flush at exit fails, too
        return EXIT_PIPE
    except KeyboardInterrupt:
        return EXIT_INTERRUPT


def _about(model: str, error: TwinferError) -> str:
    """The error's words, behind the model's name unless they begin with it."""
    return str(error) if str(error).startswith(f"{model}: ") else f"{model}: {error}"


def _fail(message: str) -> int:
    from twinfer.terminal import note

    note(message)
    return EXIT_USAGE


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    from twinfer.terminal import note

    note(f"warning: {message}")


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
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in (_add_bench, _add_inspect, _add_run, _add_verify, _add_compile, _add_convert, _add_search):
        add(commands)
    return top


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        import twinfer

        sys.stdout.write(f"twinfer {twinfer.__version__}\n")
        parser.exit()


def _command(
    commands: Any, run: Callable[[argparse.Namespace], int], about: str, *examples: str
) -> argparse.ArgumentParser:
    """A subcommand named after its function."""
    name = run.__name__
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog="\n".join(["examples:", *(f"  twinfer {name} {example}".rstrip() for example in examples)]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.set_defaults(run=run)
    return made


# -- bench -------------------------------------------------------------------------------------------------------------


def _add_bench(commands: Any) -> None:
    command = _command(
        commands,
        bench,
        "time a model interpreted and compiled, beside the peers; on a microcontroller count instructions and bytes",
        "",
        "kws_int8 --layers",
        "kws_int8 --target cortex-m4,cortex-m55 --optimize speed,size",
        "model.tflite --against tflm --seconds 5 --json bench.json",
    )
    command.add_argument("models", nargs="*", metavar="MODEL", help=f"{MODEL}; all built-in models if none is given")
    command.add_argument("--layers", action="store_true", help="every layer, too, and the dispatch from Python")
    command.add_argument(
        "--against", metavar="PEERS", help="litert, tflm, litert-ref, or none (default: those installed)"
    )
    _add_targets(command)
    about = f"on microcontrollers, one or several with commas: {OPTIMIZE}"
    command.add_argument("--optimize", metavar="HOW", default="balanced", help=about)
    add_storages(command)
    about = "on microcontrollers, what to measure (default: both)"
    command.add_argument("--engine", choices=["interpreted", "compiled", "both"], default="both", help=about)
    command.add_argument("--seconds", type=positive(float), default=1.0, help="time for each model (default: 1)")
    command.add_argument("--runs", type=positive(int), metavar="N", help="rounds for each model, instead of --seconds")
    command.add_argument("--seed", type=natural, default=0, help="seed of the inputs (default: 0)")
    command.add_argument("--json", metavar="FILE", help="write the figures to FILE, too; - for standard output alone")
    about = "write a page to FILE that shows microcontrollers beside TFLM, where its figures are known"
    command.add_argument("--html", metavar="FILE", help=about)


def bench(arguments: argparse.Namespace) -> int:
    from twinfer.bench.measure.embedded_html import embedded_html
    from twinfer.bench.measure.embedded_report import embedded_tables
    from twinfer.bench.measure.report import document, tables
    from twinfer.bench.models.source import builtin_names, load
    from twinfer.runtime.read.files import check_places, write_text
    from twinfer.targets import benches, judged, warn_of_zero_divisions
    from twinfer.terminal import console, progress, show

    runs = benches(arguments)
    names = arguments.models or builtin_names()
    check_places((arguments.json, arguments.html), inputs=(*names, *arguments.target.split(",")))
    rows: list[dict[str, Any]] = []
    failed = 0
    with progress(len(names) * len(runs)) as told:
        for i, name in enumerate(names):
            try:
                source = load(name)
                warn_of_zero_divisions(source, arguments.seed)
                for k, run_it in enumerate(runs, i * len(runs)):
                    told(k, name, 0)
                    rows += run_it(source, lambda share, k=k, name=name: told(k, name, share))
            except TwinferError as error:
                failed = _fail(_about(name, error))
    if arguments.json:
        write_json(arguments.json, document(rows))
    there = [row for row in rows if row["target"] != "host"]
    if arguments.html:
        write_text(arguments.html, embedded_html(there))
    if arguments.json != "-":
        show(tables([row for row in rows if row["target"] == "host"]))
        show(embedded_tables(there, console().width))
    return judged(rows) or failed


def _add_targets(command: argparse.ArgumentParser) -> None:
    about = f"where, one or several with commas: {TARGET} (default: host)"
    command.add_argument("--target", metavar="TARGETS", default="host", help=about)


# -- verify ------------------------------------------------------------------------------------------------------------


def _add_verify(commands: Any) -> None:
    command = _command(
        commands,
        verify,
        "prove that numpy, interpreter, compiled code, tflite-micro and LiteRT agree on every tensor",
        "kws_int8",
        "models/*.tflite --samples 4 --against tflm",
        "kws_int8 --target cortex-m4,cortex-m55",
    )
    command.add_argument("models", nargs="+", metavar="MODEL", help=MODEL)
    command.add_argument("--seed", type=natural, default=0, help="seed of the first input (default: 0)")
    command.add_argument(
        "--samples", type=positive(int), default=1, metavar="K", help="inputs to compare on (default: 1)"
    )
    about = "tflm, litert-ref, or none (default: those installed)"
    command.add_argument("--against", metavar="PEERS", help=about)
    _add_targets(command)
    add_optimize(command, f"of compiled code, {OPTIMIZE}")
    add_storage(command)
    command.add_argument("--guard", action="store_true", help=GUARD)
    command.epilog += "\n\nexit status: 0 all agree, 1 something differs, 2 a model cannot be run"  # type: ignore[operator]


def verify(arguments: argparse.Namespace) -> int:
    from twinfer.bench.models.source import load
    from twinfer.matrix import findings, matrix
    from twinfer.targets import proofs
    from twinfer.terminal import progress, show

    runs = proofs(arguments)
    names, failed = arguments.models, 0
    proven: list[list[Any]] = [[] for _ in runs]
    with progress(len(names) * len(runs)) as told:
        for i, name in enumerate(names):
            for k, (_, prove) in enumerate(runs):
                at = i * len(runs) + k
                told(at, name, 0)
                try:
                    step = lambda share, at=at, name=name: told(at, name, share)  # noqa: E731
                    proven[k].append(prove(load(name), step))
                except TwinferError as error:
                    failed = _fail(_about(name, error))
    for (engines, _), found in zip(runs, proven, strict=True):
        show(matrix(found, engines))
        show(findings(found))
    every = [proof for found in proven for proof in found]
    failed = EXIT_USAGE if any(proof.unrun for proof in every) else failed
    return failed if all(proof.proven for proof in every) else EXIT_DIFFERS


# -- compile -----------------------------------------------------------------------------------------------------------


def _add_compile(commands: Any) -> None:
    command = _command(
        commands,
        compile,
        "write a model as a folder of C that builds on its own",
        "model.tflite --target cortex-m4 --optimize size -o model_c",
        "kws_int8 -o kws && make -C kws test",
    )
    command.add_argument("model", metavar="MODEL", help=MODEL)
    about = f"what for: generic (any 32-bit machine), {TARGET} (default: host)"
    command.add_argument("--target", default="host", help=about)
    command.add_argument(
        "-o", "--output", required=True, metavar="DIR", help="folder to write; an earlier run's is replaced"
    )
    command.add_argument("--name", help="what functions and files are called (default: after the model)")
    command.add_argument(
        "--mode",
        choices=["compiled", "interpreted"],
        default="compiled",
        help="a function a layer, or shared kernels called from a table (default: compiled)",
    )
    add_optimize(command, OPTIMIZE)
    add_storage(command)
    about = "spread the arena out, and let the emitted code tell a layer that writes memory not its own"
    command.add_argument("--guard", action="store_true", help=about)


def compile(arguments: argparse.Namespace) -> int:
    from twinfer.aot.build.project import write_project
    from twinfer.aot.print.literals import identifier
    from twinfer.bench.models.source import load
    from twinfer.cli_storage import unused_storage
    from twinfer.runtime.plan.make import make_plan
    from twinfer.runtime.read.files import check_folder
    from twinfer.targets import machine
    from twinfer.terminal import note, say

    check_folder(arguments.output, inputs=(arguments.model, arguments.target))
    source = load(arguments.model)
    target, board = machine(arguments.target)
    target = target.optimized(arguments.optimize).storing(arguments.weights, arguments.decode)
    plan = make_plan(source.graph, target)
    name = arguments.name or identifier(source.name)
    how = {"mode": arguments.mode, "guard": arguments.guard, "card": board}
    project = write_project(plan, name, arguments.output, sha256=source.sha256, **how)
    for line in unused_storage(plan):
        note(line)
    arena = f"arena {project.plan.arena_bytes:,} bytes (lower bound {plan.lower_bound_bytes:,})"
    stack = "" if project.stack_bytes is None else f", stack {project.stack_bytes:,} bytes at most"
    sizes = f"{len(project.layers)} layers, {project.constants.nbytes:,} constant bytes, {arena}{stack}"
    say(f"{arguments.output}: {sizes}; try: make -C {arguments.output} test")
    return 0


# -- commands in files of their own ------------------------------------------------------------------------------------


def _add_convert(commands: Any) -> None:
    from twinfer.cli_convert import EXAMPLES, add_arguments, convert

    about = "turn a float model into a .tflite file, optimised and, on request, quantised"
    add_arguments(_command(commands, convert, about, *EXAMPLES))


def _add_inspect(commands: Any) -> None:
    from twinfer.cli_run import INSPECTIONS, add_inspect, inspect

    about = "show a model: operators, shapes, quantisation, sizes, and a map of its arena"
    add_inspect(_command(commands, inspect, about, *INSPECTIONS))


def _add_run(commands: Any) -> None:
    from twinfer.cli_run import RUNS, add_run, run

    add_run(_command(commands, run, "run a model once on arrays from files", *RUNS))


def _add_search(commands: Any) -> None:
    from twinfer.cli_search import EXAMPLES, add_arguments, search

    about = "find the cheapest quantisation that loses no more accuracy than is allowed"
    add_arguments(_command(commands, search, about, *EXAMPLES))
