"""Whole applications of the corpus on RISC-V and in WebAssembly: the host's bits, run after run from one reset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import deep_but, need_tools, needs, sampled

from twinfer.aot.build.firmware import build
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import Project, emit
from twinfer.runtime.graph import Array
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.tflite import read_file
from twinfer.runtime.run.session import Session

#: Cores whose kernels are not those of Cortex-M; each takes one application in so many. Simulated cores take those with
#: at most so many multiply-accumulates and bytes, as a second simulates a million cycles.
CORES = ("riscv32", "riscv64", "riscv64gcv", "wasm32")
EVERY = 8
SIMULATED, MOST_MACS, MOST_BYTES = ("riscv32-vexriscv", "riscv32-ibex", "riscv32-cv32e40p"), 130_000, 60_000

#: The bound for values of picolibc's and wasi's expf and tanhf against glibc's, of the largest value.
LIBM = 3e-7

#: Samples of an application that run one after the other, so that a state matters.
RUNS = 2

pytestmark = pytest.mark.filterwarnings("ignore::twinfer.runtime.errors.ModelWarning")


def applications(corpus: Path) -> list[dict[str, Any]]:
    index = json.loads((corpus / "index.json").read_text("utf-8"))
    return [entry for entry in index if entry["group"] == "app"]


def agree(got: Array, want: Array) -> bool:
    if got.dtype.kind != "f":
        return got.tobytes() == want.tobytes()
    return np.allclose(got, want, rtol=0, atol=LIBM * max(1.0, float(np.abs(want).max(initial=0))))


def differing(corpus: Path, core: str, entries: list[dict[str, Any]]) -> list[str]:
    """The applications whose outputs are others than the interpreter's here; all are in one program."""
    card, projects, jobs = find(core), list[Project](), list[Job]()
    wants = list[tuple[str, list[Array]]]()
    for i, entry in enumerate(entries):
        graph = read_file(corpus / entry["file"])
        engine = Session(make_plan(graph))
        with np.load(corpus / entry["golden"]) as golden:
            for k in range(RUNS):
                values = [golden[f"s{k}_in{j}"].reshape(t.shape) for j, t in enumerate(graph.inputs)]
                engine.feed(values)
                engine.run()
                jobs.append(Job(values, i, fresh=not k))
                wants.append((Path(entry["file"]).stem, engine.outputs()))
        projects.append(emit(make_plan(graph, card.target), Path(entry["file"]).stem))
    results = run_jobs(build(projects, card), jobs, count=False)
    pairs = zip(results, wants, strict=True)
    return [name for result, (name, want) in pairs if not all(map(agree, result.outputs, want))]


@pytest.mark.usefixtures("kept_builds")
@pytest.mark.parametrize("core", deep_but((*CORES, *SIMULATED)))
def test_applications(corpus: Path, core: str) -> None:
    """One in a few, others each day and on each core; ``--all-models`` takes every one."""
    card, entries = find(core), applications(corpus)
    need_tools(card.compiler, card.emulator)
    if core == "wasm32":
        needs("wasmtime")
    if core in SIMULATED:
        need_tools("verilator", "g++")
        needs(f"pythondata_cpu_{card.machine}")
        entries = [e for e in entries if e["macs"] <= MOST_MACS and e["bytes"] <= MOST_BYTES]
    chosen = sampled(entries, EVERY, core)
    assert chosen
    assert not differing(corpus, core, chosen)
