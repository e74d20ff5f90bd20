"""One model on one microcontroller, in both modes: the rows of ``twinfer bench --target cortex-m4``.

Compiled code is measured for every ``--optimize`` asked for; interpreted code once, as by default, because its kernels
are shared.
QEMU counts instructions, for it knows nothing of pipelines; cycles are apart (``bench/measure/cycles.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import get_args

from twinfer.aot.build.firmware import build
from twinfer.aot.build.runner import Job, run_jobs, runner_of
from twinfer.aot.build.sizes import sizes
from twinfer.aot.build.stack import firmware_bound
from twinfer.aot.build.targets import Card, find
from twinfer.aot.print.emit import Project, emit
from twinfer.aot.print.literals import identifier
from twinfer.bench.measure.compare import Progress, Row, max_difference, same_bits
from twinfer.bench.measure.cycles import counted_of, estimate_of
from twinfer.bench.measure.price import priced_layers
from twinfer.bench.measure.tflm import tflm_rows
from twinfer.bench.models.source import Source
from twinfer.bench.models.verify import ONE, Proof, Samples, compare, lines_of
from twinfer.bench.models.zero_division import zero_divisions
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.op import TOLERANCE
from twinfer.runtime.options import USUAL, Coding, Decoding, Floats, Memory, Mode, Optimize, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.poison import POISONS, poison
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import Target

#: Interpreted first, as on the host.
MODES: Sequence[Mode] = get_args(Mode)[::-1]

#: The plans whose memory is compared.
WAYS: Sequence[Memory] = ("layers", "rows")

#: Columns of the row of an engine that could run; they are None if it could not.
FIGURES = ("instructions", "code_bytes", "weight_bytes", "ram_bytes", "stack_bytes", "stack_bound_bytes")


def every(
    optimize: Sequence[Optimize] = (USUAL.optimize,),
    storages: Sequence[tuple[Coding, Decoding]] = ((USUAL.weights, USUAL.decode),),
    modes: Sequence[Mode] = MODES,
    memory: Memory = USUAL.memory,
    floats: Floats = USUAL.floats,
) -> tuple[Options, ...]:
    """Compiled code for every ``optimize`` and every way to store weights, interpreted code for the default one."""
    goals = {"compiled": optimize, "interpreted": (USUAL.optimize,)}
    every = ((goal, *how, mode) for mode in modes for goal in goals[mode] for how in storages)
    return tuple(Options(*each, memory=memory, floats=floats) for each in every)


@dataclass(frozen=True)
class Measurement:
    """What to measure: options, inputs; whether layers, too, which wants plans by layers, and cycles."""

    options: Sequence[Options] = every()
    seed: int = 0
    layers: bool = False
    cycles: bool = False


def need_tools(card: Card) -> None:
    """Raises ToolError if a tool is missing that these figures need."""
    card.toolchain.need()
    runner_of(card).need()


def measure_on(
    source: Source, card: Card, measurement: Measurement, progress: Progress = lambda share: None
) -> list[Row]:
    """One row per options, then TFLM's recorded rows if there are any.

    If a build or run fails, the row has "error" and no figures. Errors of planning are raised.
    """
    plans = [make_plan(source.graph, card.target, options) for options in measurement.options]
    inputs = random_inputs(plans[0].graph, measurement.seed)
    want = host_outputs(plans[0].graph, inputs)
    jobs = [Job(inputs), Job(inputs, paint=True), *([Job(inputs, by_step=True)] if measurement.layers else [])]
    rows = []
    for i, plan in enumerate(plans):
        progress(i / len(plans))
        project = emit(plan, identifier(source.name))
        rows.append(_row(source.name, project, card, jobs, want))
        if measurement.cycles and not {"error", "cycles"} & rows[-1].keys():
            rows[-1] |= estimate_of(project, card, inputs)
    return [*rows, *tflm_rows(source, card.name)]


@dataclass(frozen=True)
class Instructions:
    """A cost for ``twinfer.search``: instructions of one inference on a board (a name, or a card's file), compiled.

    ToolError if it cannot be built or run there.
    """

    board: str

    def __call__(self, graph: Graph, content: bytes, target: Target) -> int:
        card = find(self.board)
        plan = make_plan(graph, target)
        (result,) = run_jobs(build(emit(plan, "model"), card), [Job(random_inputs(plan.graph, 0))])
        return result.counts[0]

    def __str__(self) -> str:
        return "instructions"


def host_outputs(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of the interpreter on this computer."""
    return fresh_outputs(Session(make_plan(graph)), inputs)


def fresh_outputs(session: Session, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of a run from fresh state, with rubbish where no input is."""
    session.reset_variables()
    poison(session)
    session.feed(inputs)
    session.run()
    return session.outputs()


def _row(model: str, project: Project, card: Card, jobs: Sequence[Job], want: Sequence[Array]) -> Row:
    """The row of one mode in the JSON, by the ``jobs``: a whole run, one on painted stack and, perhaps, step by step.

    Stack is from the call of ``NAME_run`` on, as painted and as the static bound.
    """
    plan = project.plan
    ways = {way: make_plan(plan.graph, plan.target, replace(plan.options, memory=way)).arena_bytes for way in WAYS}
    row: Row = {
        "model": model,
        "engine": project.mode,
        "target": card.name,
        "optimize": plan.options.optimize,
        "weights": plan.options.weights,
        "decode": plan.options.decode,
        "board": card.machine,
        "operators": len(plan.graph.nodes),
        "macs": plan.macs,
        "memory": plan.options.memory,
        **({"floats": plan.options.floats} if plan.options.floats != USUAL.floats else {}),
        "arena_bytes": plan.arena_bytes,
        **{f"{way}_arena_bytes": size for way, size in ways.items()},
        "lower_bound_bytes": plan.lower_bound_bytes,
        "constant_bytes": plan.constant_bytes,
        "same_bits": None,
        "max_difference": None,
        "agrees": None,
        **dict.fromkeys(FIGURES),
    }
    try:
        firmware = build(project, card)
        whole, painted, *steps = results = run_jobs(firmware, jobs)
        taken = sizes(project, card)
        bound = firmware_bound(firmware)
        layers = priced_layers(project, card, jobs[0].inputs, steps[0], taken) if steps else {}
    except ToolError as error:
        return {**row, "error": str(error)}
    outputs, wanted = [value for result in results for value in result.outputs], [*want] * len(results)
    return {
        **row,
        "same_bits": same_bits(outputs, wanted),
        "max_difference": max_difference(outputs, wanted),
        "agrees": all_agree(outputs, wanted),
        "instructions": whole.counts[0],
        "code_bytes": taken.code_bytes,
        "weight_bytes": taken.weight_bytes,
        "ram_bytes": taken.ram_bytes,
        "stack_bytes": painted.stack_bytes,
        "stack_bound_bytes": bound.bytes,
        **layers,
        **counted_of(whole, card),
    }


def agree(value: Array, want: Array) -> bool:
    """Whether bits are the same or, for floats, within the tolerance: newlib's exp and tanh differ from glibc's."""
    difference = compare(0, want, value, TOLERANCE)
    return difference is None or difference.within


def all_agree(values: Sequence[Array], wanted: Sequence[Array]) -> bool:
    """Whether each value agrees with the one that is wanted in its place."""
    return all(agree(*pair) for pair in zip(values, wanted, strict=True))


def verify_on(
    source: Source,
    cards: Sequence[Card],
    options: Options = USUAL,
    samples: Samples = ONE,
    progress: Progress = lambda share: None,
) -> Proof:
    """Compares both modes on every core, by layers and by rows, with the interpreter on this computer.

    Every sample begins with fresh state. The C has these ``options`` but for the mode and the memory. If a model cannot
    be built or run, the proof has a note.
    """
    graph = make_plan(source.graph, options=Options(floats=options.floats)).graph
    inputs = samples.inputs(graph)
    want = [host_outputs(graph, sample) for sample in inputs]
    runs = list(product(cards, MODES, ways(options)))
    others = [engine_on(*run) for run in runs]
    proof = Proof(source.name, graph, lines_of(graph, outputs_alone=True), samples.count, others=others)
    proof.by_zero.update(zero_divisions(graph, inputs))
    jobs = [Job(sample) for sample in inputs for _ in POISONS]  # each byte of rubbish fills the memory before one
    for k, (card, mode, memory) in enumerate(runs):
        progress(k / len(runs))
        engine = engine_on(card, mode, memory)
        try:
            plan = make_plan(graph, card.target, replace(options, mode=mode, memory=memory))
            project = emit(plan, identifier(source.name))
            results = run_jobs(build(project, card), jobs, count=False)
        except ToolError as error:
            proof.notes[engine] = str(error)
            continue
        for i, result in enumerate(results):
            sample = i // len(POISONS)
            for line, value, wanted in zip(proof.lines, result.outputs, want[sample], strict=True):
                line.add(engine, compare(sample, wanted, value, TOLERANCE))
    return proof


def ways(options: Options) -> Sequence[Memory]:
    """The plans that a proof runs: guard mode knows layers alone."""
    return WAYS[:1] if options.guard else WAYS


def engine_on(card: Card, mode: Mode, memory: Memory) -> str:
    """The name of a mode and a plan on a core in a proof."""
    return f"{mode} {memory} on {card.name}"
