"""The cost of every layer on a microcontroller with a body of its own and with a shared one.

Neither is estimated: the model is built with all layers sharing and with none, and both are run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twinfer.aot.build.firmware import build
from twinfer.aot.build.runner import Job, Result, run_jobs
from twinfer.aot.build.sizes import Sizes, sizes
from twinfer.aot.build.targets import Card
from twinfer.aot.print.emit import Project, emit
from twinfer.aot.print.layer_functions import kernel_counts
from twinfer.bench.measure.compare import Row, describe
from twinfer.runtime.graph import Array
from twinfer.runtime.plan.choice import share_all, specialise


@dataclass(frozen=True)
class Build:
    """One form of a model: instructions of its steps, and its bytes."""

    counts: Sequence[int]
    sizes: Sizes

    def price(self, i: int) -> tuple[int, int]:
        """Instructions of step ``i``, and the bytes of code and params of its own."""
        return self.counts[i], own_code(self.sizes, i)


def own_code(taken: Sizes, i: int) -> int:
    """The bytes of code and params of step ``i``'s own."""
    own = taken.layer(i)
    return own.get("code", 0) + own.get("params", 0)


def priced_layers(
    project: Project, card: Card, inputs: Sequence[Array], steps: Result, taken: Sizes
) -> dict[str, object]:
    """The columns of a model's row about its layers, and about the instances that they share (kernel -> bytes)."""
    layers: list[Row] = [
        {**describe(step), "instructions": steps.counts[i], "code_bytes": own_code(taken, i)}
        for i, step in enumerate(project.plan.steps)
    ]
    for layer, cycles in zip(layers, steps.cycles, strict=False):
        layer["cycles"] = cycles
    if project.mode == "compiled":
        forms = (emit(project.plan, project.name, policy=policy) for policy in (specialise, share_all))
        every_own, every_shared = (build_steps(form, card, inputs) for form in forms)
        for i, layer in enumerate(layers):
            other = every_own if i in project.shared else every_shared
            layer["shared"] = i in project.shared
            layer["other_instructions"], layer["other_code_bytes"] = other.price(i)
    return {"layers": layers, "instances": instances(project, taken)}


def build_steps(project: Project, card: Card, inputs: Sequence[Array]) -> Build:
    """Builds a model and runs it step by step. ToolError if a tool fails."""
    (steps,) = run_jobs(build(project, card), [Job(inputs, by_step=True)])
    return Build(steps.counts, sizes(project, card))


def instances(project: Project, taken: Sizes) -> dict[str, int]:
    """Kernel -> bytes of its shared instance."""
    sizes_of = {symbol.name: symbol.size + symbol.padding for symbol in taken.symbols}
    names = {kernel: f"{project.name}_{kernel}" for kernel in kernel_counts(project.plan)}
    return {kernel: sizes_of[name] for kernel, name in names.items() if name in sizes_of}
