"""``twinfer run``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twinfer.aot.build.runner import Job, run_jobs
from twinfer.command_line.command import Command
from twinfer.command_line.options import (
    GUARD,
    MODEL,
    OPTIMIZE,
    TARGET,
    add_float,
    add_io,
    add_memory,
    add_optimize,
    memory_of,
    natural,
)

if TYPE_CHECKING:
    from twinfer.runtime.graph import Graph
    from twinfer.runtime.options import Options
    from twinfer.runtime.plan.plan import Plan

EXAMPLES = (
    "model.tflite --input x.npy --output y.npy",
    "model.tflite --input left=a.npy --input right=b.npy --output y.npz --engine compiled",
    "kws_int8 --seed 7 --target cortex-m4",
)


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=MODEL)
    about = "a .npy file, in the order of the inputs, or for the input of that name; or a .npz file that holds all; "
    about += "floats for an input of quantised integers are quantised"
    command.add_argument("--input", action="append", default=[], metavar="[NAME=]FILE", help=about)
    about = "where to write: a .npy file for one output, in their order or by name; or a .npz file for all"
    command.add_argument("--output", action="append", default=[], metavar="[NAME=]FILE", help=about)
    about = "write and show what the integers of outputs stand for, as float32"
    command.add_argument("--real-outputs", action="store_true", help=about)
    command.add_argument("--seed", type=natural, default=0, help="seed for inputs that are not given (default: 0)")
    command.add_argument(
        "--engine", choices=["interpreted", "compiled"], default="interpreted", help="default: interpreted"
    )
    command.add_argument("--target", default="host", help=f"{TARGET} (default: host)")
    add_optimize(command, f"of compiled code, {OPTIMIZE}")
    add_memory(command)
    add_float(command)
    add_io(command)
    command.add_argument("--guard", action="store_true", help=GUARD)


def run(arguments: argparse.Namespace) -> int:
    from twinfer.bench.models.source import file_of, load_with
    from twinfer.bench.models.zero_division import warn_of_zero_divisions
    from twinfer.command_line.arrays import check_outputs, read_inputs
    from twinfer.command_line.targets import card
    from twinfer.command_line.terminal import note, show
    from twinfer.runtime.options import Options
    from twinfer.runtime.plan.make import make_plan

    check_outputs(arguments.output, inputs=(file_of(arguments.model), arguments.target, *arguments.input))
    graph = make_plan(
        load_with(arguments.model, arguments.io).graph
    ).graph  # unsupported operators first, and every shape known
    inputs = read_inputs(graph, arguments.input, arguments.seed)
    board, shapes = card(arguments.target), [value.shape for value in inputs]
    engine = "interpreted" if board else arguments.engine
    how: Any = {"mode": arguments.engine, "guard": arguments.guard, "floats": arguments.floats}
    options = Options(optimize=arguments.optimize, **how, **memory_of(arguments))
    model = _open(graph, engine, shapes, options)
    if board is None and engine == "interpreted" and arguments.optimize != "balanced":
        note(f"--optimize {arguments.optimize} changes nothing: it is for compiled code (--engine compiled)")
    warn_of_zero_divisions(model.plan.graph, inputs, "these inputs")
    if board is not None:
        _run_there(board, make_plan(model.plan.graph, board.target, options), arguments, inputs)
        return 0
    for detail, value in zip(model.get_input_details(), inputs, strict=True):
        model.set_tensor(detail["index"], value)
    model.invoke()
    outputs = [model.get_tensor(detail["index"]) for detail in model.get_output_details()]
    show([_write(model.plan.graph, arguments, inputs, outputs)])
    return 0


def _open(graph: Any, engine: str, shapes: Sequence[tuple[int, ...]], options: Options) -> Any:
    """The interpreter or the compiled model, with inputs of these shapes."""
    from twinfer import CompiledModel, Interpreter

    model = (CompiledModel if engine == "compiled" else Interpreter).from_graph(graph, options)
    for detail, shape in zip(model.get_input_details(), shapes, strict=True):
        model.resize_tensor_input(detail["index"], shape)
    model.allocate_tensors()
    return model


def _write(graph: Graph, arguments: argparse.Namespace, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    """Writes the outputs to the files that were asked for; returns the table of inputs and outputs."""
    from twinfer.command_line.arrays import summary, write_outputs
    from twinfer.runtime.affine import real

    if arguments.real_outputs:
        outputs = [real(value, tensor) for tensor, value in zip(graph.outputs, outputs, strict=True)]
    write_outputs(graph, arguments.output, outputs)
    return summary(graph, inputs, outputs)


def _run_there(board: Any, plan: Plan, arguments: argparse.Namespace, inputs: Sequence[Any]) -> None:
    """One inference on a microcontroller, and how many instructions it took."""
    from rich.text import Text

    from twinfer.aot.build.firmware import build
    from twinfer.aot.print.emit import emit
    from twinfer.command_line.terminal import show

    (result,) = run_jobs(build(emit(plan, "model"), board), [Job(inputs)])
    written = _write(plan.graph, arguments, inputs, result.outputs)
    counted = Text(f"{plan.options.mode} on {board.name}: {result.counts[0]:,} instructions")
    show([written, counted])


COMMAND = Command("run", "run a model once on arrays from files", EXAMPLES, add_arguments, run)
