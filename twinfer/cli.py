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

from twinfer.cli_storage import add_storage, add_storages
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.printable import printable

EXIT_DIFFERS, EXIT_USAGE, EXIT_INTERRUPT, EXIT_PIPE = 1, 2, 130, 141

_GUARD = "watch every step, and name one that reads or writes memory that is not its own (slow)"
_TARGET = "host, cortex-m4 (or m4), … or a .toml file that describes a board"
_OPTIMIZE = "fewest instructions (speed), least flash (size), or what lies between (balanced, the default)"
_MODEL = "a .tflite file, or the name of a built-in model"


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


def _natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value} is below 0")
    return value


def _positive(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    def check(text: str) -> Any:
        value = kind(text)
        if not value > 0:
            raise ValueError
        return value

    check.__name__ = f"positive {getattr(kind, '__name__', 'number')}"
    return check


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
    command.add_argument("models", nargs="*", metavar="MODEL", help=f"{_MODEL}; all built-in models if none is given")
    command.add_argument("--layers", action="store_true", help="every layer, too, and the dispatch from Python")
    command.add_argument(
        "--against", metavar="PEERS", help="litert, tflm, litert-ref, or none (default: those installed)"
    )
    _add_targets(command)
    about = f"on microcontrollers, one or several with commas: {_OPTIMIZE}"
    command.add_argument("--optimize", metavar="HOW", default="balanced", help=about)
    add_storages(command)
    about = "on microcontrollers, what to measure (default: both)"
    command.add_argument("--engine", choices=["interpreted", "compiled", "both"], default="both", help=about)
    command.add_argument("--seconds", type=_positive(float), default=1.0, help="time for each model (default: 1)")
    command.add_argument("--runs", type=_positive(int), metavar="N", help="rounds for each model, instead of --seconds")
    command.add_argument("--seed", type=_natural, default=0, help="seed of the inputs (default: 0)")
    command.add_argument("--json", metavar="FILE", help="write the figures to FILE, too; - for standard output alone")
    about = "write a page to FILE that shows microcontrollers beside TFLM, where its figures are known"
    command.add_argument("--html", metavar="FILE", help=about)


def bench(arguments: argparse.Namespace) -> int:
    from twinfer.bench.embedded_html import embedded_html
    from twinfer.bench.embedded_report import embedded_tables
    from twinfer.bench.report import document, tables
    from twinfer.bench.source import builtin_names, load
    from twinfer.runtime.files import check_places, write_text
    from twinfer.targets import benches, judged
    from twinfer.terminal import console, progress, show

    runs = benches(arguments)
    names = arguments.models or builtin_names()
    check_places((arguments.json, arguments.html), inputs=names)
    rows: list[dict[str, Any]] = []
    failed = 0
    with progress(len(names) * len(runs)) as told:
        for i, name in enumerate(names):
            try:
                source = load(name)
                for k, run_it in enumerate(runs, i * len(runs)):
                    told(k, name, 0)
                    rows += run_it(source, lambda share, k=k, name=name: told(k, name, share))
            except TwinferError as error:
                failed = _fail(f"{name}: {error}")
    if arguments.json:
        _write_json(arguments.json, document(rows))
    there = [row for row in rows if row["target"] != "host"]
    if arguments.html:
        write_text(arguments.html, embedded_html(there))
    if arguments.json != "-":
        show(tables([row for row in rows if row["target"] == "host"]))
        show(embedded_tables(there, console().width))
    return judged(rows) or failed


def _add_targets(command: argparse.ArgumentParser) -> None:
    about = f"where, one or several with commas: {_TARGET} (default: host)"
    command.add_argument("--target", metavar="TARGETS", default="host", help=about)


def _add_optimize(command: argparse.ArgumentParser, about: str) -> None:
    command.add_argument("--optimize", choices=["speed", "balanced", "size"], default="balanced", help=about)


def _write_json(path: str, value: Any) -> None:
    import json

    text = json.dumps(value, indent=1) + "\n"
    if path == "-":
        sys.stdout.write(text)
    else:
        from twinfer.runtime.files import write_text

        write_text(path, text)


# -- inspect -----------------------------------------------------------------------------------------------------------


def _add_inspect(commands: Any) -> None:
    about = "show a model: operators, shapes, quantisation, sizes, and a map of its arena"
    command = _command(commands, inspect, about, "kws_int8", "model.tflite --target cortex-m4 --json")
    command.add_argument("model", metavar="MODEL", help=_MODEL)
    about = f"what to plan for: generic (any 32-bit machine), {_TARGET} (default: host)"
    command.add_argument("--target", default="host", help=about)
    command.add_argument("--json", action="store_true", help="print it as JSON")


def inspect(arguments: argparse.Namespace) -> int:
    from twinfer.bench.source import load
    from twinfer.show import describe, planned, render
    from twinfer.targets import machine
    from twinfer.terminal import console, show

    target, _ = machine(arguments.target)
    source = load(arguments.model)
    plan, reason = planned(source, target)
    if arguments.json:
        _write_json("-", describe(source.name, source.graph, plan, reason))
        return 0
    show(render(source.name, source.graph, plan, reason, console().width))
    return 0


# -- run ---------------------------------------------------------------------------------------------------------------


def _add_run(commands: Any) -> None:
    command = _command(
        commands,
        run,
        "run a model once on arrays from files",
        "model.tflite --input x.npy --output y.npy",
        "model.tflite --input left=a.npy --input right=b.npy --output y.npz --engine compiled",
        "kws_int8 --seed 7 --target cortex-m4",
    )
    command.add_argument("model", metavar="MODEL", help=_MODEL)
    about = "a .npy file, in the order of the inputs, or for the input of that name; or a .npz file that holds all"
    command.add_argument("--input", action="append", default=[], metavar="[NAME=]FILE", help=about)
    about = "where to write: a .npy file for one output, in their order or by name; or a .npz file for all"
    command.add_argument("--output", action="append", default=[], metavar="[NAME=]FILE", help=about)
    command.add_argument("--seed", type=_natural, default=0, help="seed for inputs that are not given (default: 0)")
    command.add_argument(
        "--engine", choices=["interpreted", "compiled"], default="interpreted", help="default: interpreted"
    )
    command.add_argument("--target", default="host", help=f"{_TARGET} (default: host)")
    _add_optimize(command, f"of compiled code, {_OPTIMIZE}")
    command.add_argument("--guard", action="store_true", help=_GUARD)


def run(arguments: argparse.Namespace) -> int:
    from twinfer.arrays import check_outputs, read_inputs, summary, write_outputs
    from twinfer.bench.source import load
    from twinfer.runtime.plan import make_plan
    from twinfer.targets import card, run_on
    from twinfer.terminal import show

    check_outputs(arguments.output, inputs=(arguments.model, *arguments.input))
    graph = make_plan(load(arguments.model).graph).graph  # unsupported operators first, and every shape known
    inputs = read_inputs(graph, arguments.input, arguments.seed)
    board, shapes = card(arguments.target), [value.shape for value in inputs]
    if board is not None:
        run_on(board, arguments, _opened(graph, "interpreted", shapes, False).plan.graph, inputs)
        return 0
    model = _opened(graph, arguments.engine, shapes, arguments.guard, arguments.optimize)
    for detail, value in zip(model.get_input_details(), inputs, strict=True):
        model.set_tensor(detail["index"], value)
    model.invoke()
    values = [model.get_tensor(detail["index"]) for detail in model.get_output_details()]
    write_outputs(model.plan.graph, arguments.output, values)
    show([summary(model.plan.graph, inputs, values)])
    return 0


def _opened(graph: Any, engine: str, shapes: Sequence[tuple[int, ...]], guard: bool, optimize: str = "balanced") -> Any:
    """The interpreter or its twin, with inputs of these shapes."""
    from twinfer import CompiledModel, Interpreter

    model = (CompiledModel if engine == "compiled" else Interpreter).from_graph(graph, guard=guard)
    if isinstance(model, CompiledModel):
        model.optimize = optimize
    for detail, shape in zip(model.get_input_details(), shapes, strict=True):
        model.resize_tensor_input(detail["index"], shape)
    model.allocate_tensors()
    return model


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
    command.add_argument("models", nargs="+", metavar="MODEL", help=_MODEL)
    command.add_argument("--seed", type=_natural, default=0, help="seed of the first input (default: 0)")
    command.add_argument(
        "--samples", type=_positive(int), default=1, metavar="K", help="inputs to compare on (default: 1)"
    )
    about = "tflm, litert-ref, or none (default: those installed)"
    command.add_argument("--against", metavar="PEERS", help=about)
    _add_targets(command)
    _add_optimize(command, f"on microcontrollers, {_OPTIMIZE}")
    add_storage(command)
    command.add_argument("--guard", action="store_true", help=_GUARD)
    command.epilog += "\n\nexit status: 0 all agree, 1 something differs, 2 a model cannot be run"  # type: ignore[operator]


def verify(arguments: argparse.Namespace) -> int:
    from twinfer.bench.source import load
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
                    failed = _fail(f"{name}: {error}")
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
    command.add_argument("model", metavar="MODEL", help=_MODEL)
    about = f"what for: generic (any 32-bit machine), {_TARGET} (default: host)"
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
    _add_optimize(command, _OPTIMIZE)
    add_storage(command)
    about = "spread the arena out, and let the emitted code tell a layer that writes memory not its own"
    command.add_argument("--guard", action="store_true", help=about)


def compile(arguments: argparse.Namespace) -> int:
    from twinfer.aot.literals import identifier
    from twinfer.aot.project import write_project
    from twinfer.bench.source import load
    from twinfer.cli_storage import unused_storage
    from twinfer.runtime.files import check_folder
    from twinfer.runtime.plan import make_plan
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


# -- convert, search ---------------------------------------------------------------------------------------------------


def _add_convert(commands: Any) -> None:
    from twinfer.cli_convert import EXAMPLES, add_arguments, convert

    about = "turn a float model into a .tflite file, optimised and, on request, quantised"
    add_arguments(_command(commands, convert, about, *EXAMPLES))


def _add_search(commands: Any) -> None:
    from twinfer.cli_search import EXAMPLES, add_arguments, search

    about = "find the cheapest quantisation that loses no more accuracy than is allowed"
    add_arguments(_command(commands, search, about, *EXAMPLES))
