"""What the command line's targets mean: this computer, or microcontrollers under QEMU; and what runs on which."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinfer.runtime.target import Target


def cards(targets: str) -> list[Any]:
    """The cards of the targets, each once, None for the host; InvalidArgumentError with the names there are."""
    names = [name.strip() for name in targets.split(",") if name.strip()]
    return list(dict.fromkeys(card(name) for name in names or ["host"]))


def card(target: str) -> Any:
    """The card of a target that programs run on, None for the host."""
    from twinfer.aot.build.targets import find
    from twinfer.runtime.errors import InvalidArgumentError

    if target.lower() == "generic":
        raise InvalidArgumentError("generic is no machine that runs anything: compile and inspect take it")
    return None if target.lower() == "host" else find(target, also=["host"])


def machine(target: str) -> tuple[Target, Any]:
    """What to plan for, and the card if that is a microcontroller; InvalidArgumentError with the names there are."""
    from twinfer.aot.build.targets import find
    from twinfer.runtime.target import GENERIC, HOST

    plain = {"generic": GENERIC, "host": HOST}
    if target.lower() in plain:
        return plain[target.lower()], None
    board = find(target, also=[*plain])
    return board.target, board


def settings(optimize: str) -> tuple[Any, ...]:
    """What to optimize for, each once; InvalidArgumentError with the names there are."""
    from twinfer.runtime.target import checked_optimize

    return tuple(dict.fromkeys(checked_optimize(name.strip()) for name in optimize.split(",")))


def peers(wanted: str | None, usual: Sequence[str]) -> list[str]:
    """The peers asked for; ToolError if one is not installed."""
    from twinfer.bench.peers.engines import find, installed
    from twinfer.runtime.errors import ToolError

    if wanted is None:
        return [peer for peer in usual if installed(peer)]
    names = [name.strip() for name in wanted.split(",") if name.strip() not in ("", "none")]
    for name in names:
        if not installed(name):
            package = find(name).package
            raise ToolError(f"{name} is not installed: pip install {package}, or leave it out of --against")
    return names


def benches(arguments: argparse.Namespace) -> list[Callable[[Any, Any], list[dict[str, Any]]]]:
    """For every target what measures one model."""
    from twinfer.bench.measure import compare as on_host
    from twinfer.bench.measure import embedded
    from twinfer.bench.peers.engines import benched
    from twinfer.cli_storage import storages
    from twinfer.terminal import note

    runs: list[Callable[[Any, Any], list[dict[str, Any]]]] = []
    chosen = cards(arguments.target)
    stored, goals = storages(arguments.weights, arguments.decode), settings(arguments.optimize)
    for line in unused(arguments, chosen):
        note(line)
    for board in chosen:
        if board is None:
            against = peers(arguments.against, benched())
            timed = on_host.Options(against, arguments.layers, arguments.seconds, arguments.runs, arguments.seed)
            runs.append(lambda source, told, timed=timed: on_host.compare(source, timed, told))  # type: ignore[misc]
        else:
            embedded.need_tools(board)
            modes = [mode for mode in embedded.MODES if arguments.engine in (mode, "both")]
            how = embedded.Options(arguments.layers, arguments.seed, goals, modes, stored)
            runs.append(lambda source, told, board=board, how=how: _measured(source, board, how, told))  # type: ignore[misc]
    return runs


def warn_of_zero_divisions(source: Any, seed: int) -> None:
    """A warning for every tensor that the inputs of the bench divide by 0, whatever the targets are."""
    from twinfer.bench.models import zero_division
    from twinfer.runtime.plan.make import make_plan
    from twinfer.runtime.run.inputs import random_inputs

    if zero_division.has_integer_division(source.graph):
        graph = make_plan(source.graph).graph
        inputs = random_inputs(graph, seed)
        zero_division.warn_of_zero_divisions(graph, inputs, "the inputs of the bench", source.name)


def _measured(source: Any, board: Any, how: Any, told: Any) -> list[dict[str, Any]]:
    from twinfer.bench.measure import embedded

    _note_unused(source, *(board.target.storing(*pair) for pair in how.storages))
    return embedded.measure_on(source, board, how, told)


def _note_unused(source: Any, *targets: Any) -> None:
    """Says once which ways to store this model's weights change nothing; the usual way asks for no change."""
    from twinfer.cli_storage import unused_storage
    from twinfer.runtime.plan.make import make_plan
    from twinfer.terminal import note

    plans = (make_plan(source.graph, target) for target in targets if target != target.storing("file"))
    for line in dict.fromkeys(line for plan in plans for line in unused_storage(plan)):
        note(f"{source.name}: {line}")


#: Options of bench that mean something on this computer alone, and on microcontrollers alone; their defaults.
HOST_ALONE = {"against": None, "seconds": 1.0, "runs": None}
BOARDS_ALONE = {"optimize": "balanced", "weights": "file", "decode": "layer", "engine": "both"}


def unused(arguments: argparse.Namespace, boards: Sequence[Any]) -> Iterator[str]:
    """What to say of options that none of the targets (None: the host) heeds."""
    host = "this computer (--target host)", HOST_ALONE, None in boards
    cores = "microcontrollers (--target cortex-m4, …)", BOARDS_ALONE, any(boards)
    for where, options, there in (host, cores):
        for name, usual in options.items():
            if not there and getattr(arguments, name) != usual:
                yield f"--{name} {getattr(arguments, name)} changes nothing: it is for {where}"


def judged(rows: Sequence[Any]) -> int:
    """The exit status: 1 unless our own engines agree with each other, 2 if one of them did not run."""
    own = [row for row in rows if row["engine"] in ("interpreted", "compiled")]
    if any(not (row["same_bits"] or row.get("agrees")) and not row.get("error") for row in own):
        return 1
    return 2 if any(row.get("error") for row in own) else 0


def run_on(board: Any, arguments: argparse.Namespace, graph: Any, inputs: Sequence[Any]) -> None:
    """One inference on a microcontroller, and how many instructions it took."""
    from rich.text import Text

    from twinfer.aot.build.firmware import build
    from twinfer.aot.build.runner import Job, run_jobs
    from twinfer.aot.print.emit import emit
    from twinfer.arrays import summary, write_outputs
    from twinfer.runtime.plan.make import make_plan
    from twinfer.terminal import show

    plan = make_plan(graph, board.target.optimized(arguments.optimize))
    project = emit(plan, "model", mode=arguments.engine, guard=arguments.guard)
    (result,) = run_jobs(build(project, board), [Job(inputs)])
    write_outputs(graph, arguments.output, result.outputs)
    counted = Text(f"{arguments.engine} on {board.name}: {result.counts[0]:,} instructions")
    show([summary(graph, inputs, result.outputs), counted])


def proofs(arguments: argparse.Namespace) -> list[tuple[Sequence[str], Callable[[Any, Any], Any]]]:
    """What proves a model on this computer, and what does on all the microcontrollers; each with its columns."""
    from twinfer.bench.measure import embedded
    from twinfer.bench.models import verify as on_host
    from twinfer.bench.peers.engines import trusted
    from twinfer.runtime.target import HOST

    chosen = cards(arguments.target)
    named = ("seed", "samples", "guard", "optimize", "weights", "decode")
    how = on_host.Options(**{name: getattr(arguments, name) for name in named})
    runs: list[tuple[Sequence[str], Callable[[Any, Any], Any]]] = []
    if None in chosen:
        against = peers(arguments.against, trusted())
        stored = HOST.storing(arguments.weights, arguments.decode)

        def prove(source: Any, told: Any) -> Any:
            _note_unused(source, stored)
            return on_host.verify(source, against, how, told)

        runs.append(((*on_host.OWN, *against), prove))
    if boards := [board for board in chosen if board is not None]:
        for board in boards:
            embedded.need_tools(board)

        def prove_on(source: Any, told: Any) -> Any:
            _note_unused(source, *(b.target.storing(arguments.weights, arguments.decode) for b in boards))
            return embedded.verify_on(source, boards, how, told)

        runs.append(([embedded.engine_on(*pair) for pair in product(boards, embedded.MODES)], prove_on))
    return runs
