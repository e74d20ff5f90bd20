"""``twinfer inspect`` and ``twinfer run``: their arguments, and what they do."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from twinfer.cli_options import GUARD, MODEL, OPTIMIZE, TARGET, add_optimize, natural, write_json

INSPECTIONS = ("kws_int8", "model.tflite --target cortex-m4 --json")
RUNS = (
    "model.tflite --input x.npy --output y.npy",
    "model.tflite --input left=a.npy --input right=b.npy --output y.npz --engine compiled",
    "kws_int8 --seed 7 --target cortex-m4",
)

# -- inspect -----------------------------------------------------------------------------------------------------------


def add_inspect(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=MODEL)
    about = f"what to plan for: generic (any 32-bit machine), {TARGET} (default: host)"
    command.add_argument("--target", default="host", help=about)
    command.add_argument("--json", action="store_true", help="print it as JSON")


def inspect(arguments: argparse.Namespace) -> int:
    from twinfer.bench.models.source import load
    from twinfer.show import describe, planned, render
    from twinfer.targets import machine
    from twinfer.terminal import console, show

    target, _ = machine(arguments.target)
    source = load(arguments.model)
    plan, reason = planned(source, target)
    if arguments.json:
        write_json("-", describe(source.name, source.graph, plan, reason))
        return 0
    show(render(source.name, source.graph, plan, reason, console().width))
    return 0


# -- run ---------------------------------------------------------------------------------------------------------------


def add_run(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help=MODEL)
    about = "a .npy file, in the order of the inputs, or for the input of that name; or a .npz file that holds all"
    command.add_argument("--input", action="append", default=[], metavar="[NAME=]FILE", help=about)
    about = "where to write: a .npy file for one output, in their order or by name; or a .npz file for all"
    command.add_argument("--output", action="append", default=[], metavar="[NAME=]FILE", help=about)
    command.add_argument("--seed", type=natural, default=0, help="seed for inputs that are not given (default: 0)")
    command.add_argument(
        "--engine", choices=["interpreted", "compiled"], default="interpreted", help="default: interpreted"
    )
    command.add_argument("--target", default="host", help=f"{TARGET} (default: host)")
    add_optimize(command, f"of compiled code, {OPTIMIZE}")
    command.add_argument("--guard", action="store_true", help=GUARD)


def run(arguments: argparse.Namespace) -> int:
    from twinfer.arrays import check_outputs, read_inputs, summary, write_outputs
    from twinfer.bench.models.source import load
    from twinfer.bench.models.zero_division import warn_of_zero_divisions
    from twinfer.runtime.plan.make import make_plan
    from twinfer.targets import card, run_on
    from twinfer.terminal import note, show

    check_outputs(arguments.output, inputs=(arguments.model, arguments.target, *arguments.input))
    graph = make_plan(load(arguments.model).graph).graph  # unsupported operators first, and every shape known
    inputs = read_inputs(graph, arguments.input, arguments.seed)
    board, shapes = card(arguments.target), [value.shape for value in inputs]
    engine = "interpreted" if board else arguments.engine
    model = _opened(graph, engine, shapes, arguments.guard, arguments.optimize)
    if arguments.engine == "interpreted" and arguments.optimize != "balanced":
        note(f"--optimize {arguments.optimize} changes nothing: it is for compiled code (--engine compiled)")
    warn_of_zero_divisions(model.plan.graph, inputs, "these inputs")
    if board is not None:
        run_on(board, arguments, model.plan.graph, inputs)
        return 0
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
