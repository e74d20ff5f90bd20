"""Counts which instructions depend on values, over random inputs: ``python -m twinfer.bench.lab.steady --json FILE``.

Every kernel that a core gets for some case of an operator runs on several inputs, ends of their types among them; so do
the built-in models. A kernel is steady if all runs took the same number of instructions. docs/firmware.md shows what
is not; a test repeats it for the layers of a model.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from twinfer.aot.build.firmware import build
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import Card, find
from twinfer.aot.print.emit import Project, emit
from twinfer.bench.models.source import load
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.op import Case
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.registry import operators
from twinfer.runtime.run.inputs import random_inputs, special_inputs
from twinfer.runtime.support import SEED

CORE = "cortex-m4"
MODELS = ("kws_int8", "vww_int8", "ic_int8", "ad01_int8")

#: Random inputs of each case and model, cases of each kernel, models in one program.
RUNS, CASES, TOGETHER = 6, 2, 24


def graph_of(case: Case) -> Graph:
    """The node of a case as a model."""
    node = case.node
    tensors = tuple(dict.fromkeys(t for t in (*node.inputs, *node.extra.get("intermediates", ())) if t is not None))
    inputs = tuple(t for t in tensors if t in node.inputs and t.data is None and not t.variable)
    others = tuple(t for t in tensors if t not in inputs)
    return Graph("case", (*inputs, *others, *node.outputs), (node,), inputs, node.outputs)


def values(graph: Graph, case: Case | None = None) -> list[list[Array]]:
    """Inputs of several runs. What a case gives as wide integers, such as positions, stays."""
    with np.errstate(invalid="ignore"):
        ends = special_inputs(graph)[:1]
    runs = [random_inputs(graph, seed) for seed in range(RUNS)] + ends
    if case is None or case.inputs is None:
        return runs
    narrow = [t.dtype.kind == "f" or t.dtype.itemsize < 4 for t in graph.inputs]
    return [[x if free else own for x, own, free in zip(run, case.inputs, narrow, strict=True)] for run in runs]


def cases(card: Card) -> Iterator[tuple[str, Project, list[list[Array]]]]:
    """For every kernel the largest cases that call it alone: its name, the program, the inputs of several runs."""
    found: dict[str, list[tuple[int, Plan, Case]]] = {}
    for op in operators().values():
        for case in op.cases(np.random.default_rng(SEED)):
            try:
                plan = make_plan(graph_of(case), card.target, Options(memory="layers"))
            except TwinferError:
                continue
            size = sum(tensor.size for tensor in plan.graph.outputs)
            if len(plan.steps) == 1 and size and not plan.state_bytes:
                found.setdefault(plan.steps[0].call.kernel, []).append((size, plan, case))
    for kernel, all in found.items():
        for i, (_, plan, case) in enumerate(sorted(all, key=lambda each: -each[0])[:CASES]):
            yield kernel, emit(plan, f"of_{kernel}_{i}"), values(plan.graph, case)


def counts(projects: Sequence[Project], inputs: Sequence[list[list[Array]]], card: Card) -> list[tuple[int, int]]:
    """Fewest and most instructions of the runs of each program."""
    jobs = [Job(run, i) for i, runs in enumerate(inputs) for run in runs]
    results = iter(run_jobs(build(projects, card), jobs))
    found = [[next(results).counts[0] for _ in runs] for runs in inputs]
    return [(min(of), max(of)) for of in found]


def measured(card: Card) -> dict[str, object]:
    """The document: of models fewest and most instructions, of every kernel the largest share by which runs differ."""
    kernels: dict[str, float] = {}
    waiting = cases(card)
    while part := list(islice(waiting, TOGETHER)):
        names, projects, inputs = zip(*part, strict=True)
        for name, (least, most) in zip(names, counts(projects, inputs, card), strict=True):
            kernels[name] = max(kernels.get(name, 0.0), round(1 - least / most, 4))
    models = {}
    for name in MODELS:
        project = emit(make_plan(load(name).graph, card.target), name)
        models[name] = counts([project], [values(project.plan.graph)], card)[0]
    return {"core": card.name, "models": models, "kernels": dict(sorted(kernels.items()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default=CORE)
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    document = measured(find(arguments.target))
    arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
