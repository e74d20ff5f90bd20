"""The ledger of a model on a microcontroller: instructions under QEMU, and bytes; exact, the same every time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from twinfer.aot.build.firmware import build
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.sizes import Sizes, sizes
from twinfer.aot.build.targets import Card
from twinfer.aot.print.emit import Project, emit
from twinfer.aot.print.layer_functions import kernel_counts
from twinfer.aot.print.literals import identifier
from twinfer.bench.explain.ledger import Ledger, Place, Start, lines_of
from twinfer.bench.measure.compare import same_bits
from twinfer.bench.measure.embedded import all_agree, host_outputs
from twinfer.bench.models.source import Source
from twinfer.runtime.graph import Array
from twinfer.runtime.options import USUAL, Mode, Options
from twinfer.runtime.plan.choice import Policy, default_policy, share_all, specialise
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs


@dataclass(frozen=True)
class Program:
    """A form of the emitted C: a table that a loop runs, or functions; ``policy`` says which of them share kernels.

    ``cause`` is in what it differs from the one before, none for the first.
    """

    cause: str
    mode: Mode
    policy: Policy


#: The programs of the ledger, each one step on the way from the interpreter to compiled code.
PROGRAMS = (
    Program("", "interpreted", share_all),
    Program("dispatch_c", "compiled", share_all),
    Program("parameters", "compiled", specialise),
    Program("sharing", "compiled", default_policy),
)

CAUSES = tuple(program.cause for program in PROGRAMS[1:])


@dataclass(frozen=True)
class Taken:
    """What a program takes: instructions of one inference and of every step, and its bytes."""

    instructions: int
    steps: tuple[int, ...]
    sizes: Sizes
    outputs: tuple[Array, ...]


def ledger_on(
    source: Source,
    card: Card,
    options: Options = USUAL,
    seed: int = 0,
    progress: Callable[[float], None] = lambda _: None,
) -> Ledger:
    """The ledger of a model on a card's core, compiled as ``options`` say.

    ToolError if it cannot be built or run there; UnsupportedOperatorError if a table cannot hold it.
    """
    plan = make_plan(source.graph, card.target, options)
    inputs = random_inputs(plan.graph, seed)
    plans = [replace(plan, options=replace(plan.options, mode=program.mode)) for program in PROGRAMS]
    name, policies = identifier(source.name), [program.policy for program in PROGRAMS]
    projects = [emit(each, name, policy=policy) for each, policy in zip(plans, policies, strict=True)]
    want = host_outputs(plan.graph, inputs)  # first: its limits end a loop that would not end on the core
    taken = []
    for i, project in enumerate(projects):
        progress(i / len(projects))
        whole, steps = run_jobs(build(project, card), [Job(inputs), Job(inputs, by_step=True)])
        taken.append(Taken(whole.counts[0], steps.counts, sizes(project, card), whole.outputs))
    first = taken[0].outputs
    nbytes = {"flash": [t.sizes.flash_bytes for t in taken], "RAM": [t.sizes.ram_bytes for t in taken]}
    return Ledger(
        source.name,
        card.name,
        "instructions",
        tuple(lines_of(plan, CAUSES, [each.steps for each in taken], [each.instructions for each in taken])),
        Start("instructions", {}, {}, _interpreter_bytes(projects[0], taken[0].sizes)),
        all_agree(first, want) and all(same_bits(each.outputs, first) for each in taken),
        {kind: Place((), "", kind).line(of, CAUSES) for kind, of in nbytes.items()},
    )


def _interpreter_bytes(project: Project, taken: Sizes) -> int:
    """The bytes of the loop and its tables: what is no kernel, no layer's and no weight of the interpreted program."""
    kernels = {f"{project.name}_{kernel}" for kernel in kernel_counts(project.plan)}
    own = [s for s in taken.symbols if s.name.startswith(f"{project.name}_") and s.layer is None]
    of_loop = [s for s in own if s.name not in kernels and s.group in ("code", "params")]
    return sum(s.size + s.padding for s in of_loop if s.name != f"{project.name}_run")
