"""Measures what a layer's own body costs and saves: ``python -m twinfer.bench.lab.prices MODEL...``.

Writes ``runtime/plan/prices.toml`` anew, which ``runtime/plan/price.py`` reads. Every model is built with all layers
specialised and with all shared; both are run step by step. Run it when kernels have changed: the figures are from real
layers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from twinfer.aot.build.sizes import sizes
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.aot.print.literals import identifier
from twinfer.bench.measure.price import build_steps, instances, own_code
from twinfer.bench.models.source import Source, load
from twinfer.converter.convert import convert
from twinfer.runtime.options import Options
from twinfer.runtime.plan.choice import bodies, share_all, specialise
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.plan.price import PRICES, form_of, outputs_of, work
from twinfer.runtime.run.inputs import random_inputs

#: Built-in models that are measured with int16 activations, too.
WIDE = ("kws_float32", "ic_float32")

#: Built-in models that are measured as they are, and with int8 between float inputs and outputs.
FLOATS = ("kws_float32", "digits_float32", "vww_float32")

#: A built-in model with forms that others lack.
LINES = "tcn_int8"

#: Whole layers by the fastest kernels.
FASTEST = Options(optimize="speed", memory="layers")

CORES = ("cortex-m3", "cortex-m4", "cortex-m55", "riscv32", "wasm32")

#: Of some cores only their own kernels: a mean of instructions and of operations of WebAssembly would be of neither,
#: and all others of RISC-V are those of Cortex-M3.
OWN = {"riscv32": "_tiles_", "wasm32": "_simd128_"}

HEAD = """\
# Of every kernel in models and single operators, by form (`-direct`: windows are read where they lie; `-pixel`: they
# are pixels; `-column`: they go along one column; floats are computed by instructions of the core, by Helium's with
# `-mve`, by the compiler's library with `-soft`): [more bytes that a specialised body takes than a layer over a shared
# one, bytes of the shared instance, the same two of code compiled for size, instructions that specialising saves an
# element of the output, instructions that a unit of work takes].
# Means over layers, under QEMU, of `simd128` as wasmtime counts; `make prices` writes this file anew.
"""


@dataclass(frozen=True)
class Sample:
    """A form of one kernel in one model on one core: sums over its layers, and how many different bodies they have.

    ``small`` is as ``body_bytes`` and ``instance``, of code compiled for size.
    """

    form: str
    bodies: int
    body_bytes: int
    instance: int
    small: tuple[int, int]
    saved: int
    outputs: int
    instructions: int
    work: int


def samples(source: Source, core: str) -> Iterator[Sample]:
    """A sample of every form of the kernels of the model on that core."""
    card = find(core)
    plan = make_plan(source.graph, card.target, FASTEST)
    inputs, name = random_inputs(plan.graph), identifier(source.name)
    own = build_steps(emit(plan, name, policy=specialise), card, inputs)
    project = emit(plan, name, policy=share_all)
    shared = build_steps(project, card, inputs)
    shared_bodies, small = instances(project, shared.sizes), _small(source, core)
    for form, users in _forms(plan).items():
        if OWN.get(core, "") not in form:
            continue
        steps, kernel = [i for same in users for i in same], plan.steps[users[0][0]].call.kernel
        saved, more = (sum(shared.price(i)[j] - own.price(i)[j] for i in steps) for j in range(2))
        outputs, effort = (sum(of(plan.steps[i]) for i in steps) for of in (outputs_of, work))
        taken = sum(own.price(i)[0] for i in steps)
        flash = (-more, shared_bodies[kernel], small[form])
        yield Sample(form, len(users), *flash, saved, outputs, taken, effort)


def _forms(plan: Plan) -> Mapping[str, list[Sequence[int]]]:
    """Form -> groups of steps that share a body."""
    users: dict[str, list[Sequence[int]]] = {}
    for steps in chain.from_iterable(bodies(plan).values()):
        users.setdefault(form_of(plan.steps[steps[0]].call, plan.target), []).append(steps)
    return users


def _small(source: Source, core: str) -> Mapping[str, tuple[int, int]]:
    """Form -> the bytes of all its bodies beyond those of calls, and of the instance, compiled for size."""
    card, name = find(core), identifier(source.name)
    plan = make_plan(source.graph, card.target, FASTEST).printed(optimize="size")
    projects = [emit(plan, name, policy=policy) for policy in (specialise, share_all)]
    own, shared = (sizes(project, card) for project in projects)
    of_instances = instances(projects[1], shared)
    users = {form: [i for same in every for i in same] for form, every in _forms(plan).items()}
    return {
        form: (
            sum(own_code(own, i) - own_code(shared, i) for i in steps), of_instances[plan.steps[steps[0]].call.kernel]
        )
        for form, steps in users.items()
    }  # fmt: skip


def twin(model: str, precision: str, inference_type: str | None = None) -> Source:
    """A built-in float model in a precision, with ranges from seeded inputs."""
    graph, rng = load(model).graph, np.random.default_rng(1)
    seen = {x.name: rng.standard_normal((8, *x.shape[1:]), np.float32) for x in graph.inputs}
    made = convert(graph, quantize=precision, calibration=seen, inference_type=inference_type)
    return Source(model.replace("float32", precision), made)


def table(every: Sequence[Sample]) -> str:
    """The file: means over bodies, models, outputs and work."""
    lines = [HEAD + "[forms]"]
    for form in sorted({sample.form for sample in every}):
        own = [sample for sample in every if sample.form == form]
        count = sum(s.bodies for s in own)
        body, small_body = sum(s.body_bytes for s in own) / count, sum(s.small[0] for s in own) / count
        instance, small_instance = (sum(s.instance for s in own) / len(own), sum(s.small[1] for s in own) / len(own))
        saved = sum(s.saved for s in own) / max(sum(s.outputs for s in own), 1)
        pace = sum(s.instructions for s in own) / max(sum(s.work for s in own), 1)
        flash = ", ".join(f"{figure:.0f}" for figure in (body, instance, small_body, small_instance))
        lines.append(f"{form} = [{flash}, {saved:.1f}, {pace:.2f}]")
    return "\n".join(lines) + "\n"


def main(models: Sequence[str]) -> None:
    """Measures the models, ``LINES``, ``WIDE`` and ``FLOATS``, and writes the table."""
    sources = [*map(load, (*models, LINES)), *(twin(name, "int16x8") for name in WIDE)]
    sources += [each for name in FLOATS for each in (load(name), twin(name, "int8", "FLOAT32"))]
    every = [sample for source in sources for core in CORES for sample in samples(source, core)]
    PRICES.write_text(table(every), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
