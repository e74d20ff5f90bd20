"""Instructions on Cortex-M and RISC-V and operations in WebAssembly, locked in perf.lock: a change of more than 1 %
fails and names the layer.

A heavy case of every family of operators and of every kernel for SMLAD, Helium or 32 registers, each alone, and a
trained model layer by layer in both modes; kws_int8, compiled, on RISC-V and in WebAssembly. Counts are exact and
repeat, so only code changes them. The test is skipped for another compiler than perf.lock's, or without it. ``pytest
tests/kernels/test_perf.py --refresh-perf`` writes the file anew.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import pytest
from cases import cases_of, graph_of, lowered, values_of
from needs import need_tools

from twinfer.aot.build.firmware import build
from twinfer.aot.build.qemu import Qemu
from twinfer.aot.build.runner import Job, run_jobs, runner_of
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import Project, emit
from twinfer.bench.models.builtin import builtin
from twinfer.runtime.op import Case
from twinfer.runtime.options import Mode
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.registry import operators, variants
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.target import HOST, Target

pytestmark = pytest.mark.usefixtures("board_tools")

LOCK = Path(__file__).with_name("perf.lock")
KERNELS = Path(__file__).parents[2] / "kernels_c"

#: The cores, and those for which every family has a case; the others have kernels of their own alone.
CORES = ("cortex-m4", "cortex-m0", "cortex-m55", "riscv32")
BY_FAMILY = ("cortex-m4", "cortex-m0")

#: The core that the whole model is locked for, and the model; whole models of other cores, compiled alone.
MAIN, MODEL = "cortex-m4", "digits_int8"
WHOLE = {"riscv32": "kws_int8", "wasm32": "kws_int8"}

#: In the names of kernels for these sets.
SETS = "_dsp|_mve|_tiles"

#: The share by which a count may change.
MOST = 0.01

Counts = dict[str, int]

HEAD = """\
# Instructions of one run under QEMU: tests/kernels/test_perf.py fails where one changes by more than 1 %.
# pytest tests/kernels/test_perf.py --refresh-perf writes this file anew.
"""


@cache
def by_work() -> list[tuple[str, Case]]:
    """The cases of all operators, heaviest first; uint8 runs as int8."""
    named = [item for op in operators() for item in cases_of(op).items() if not item[0].endswith("uint8")]
    works = {name: work(case) for name, case in named}
    return sorted(named, key=lambda item: -works[item[0]])


@cache
def locked_cases(core: str) -> dict[str, Case]:
    """The heaviest int8 case of every family, and of each kernel for the core's instruction set the heaviest case."""
    if core not in CORES:
        return {}
    every, target = by_work(), find(core).target
    families: dict[str, tuple[str, Case]] = {}
    for name, case in every:
        if case.node.outputs[0].type == "INT8" and core in BY_FAMILY:
            families.setdefault(operators()[case.node.op].cases.__module__.split(".")[3], (name, case))
    locked = dict(families.values())
    seen = {kernel for case in locked.values() for kernel in kernels_of(case, target)}
    sets = {"dsp", "mve", "tiles"}
    served = {op for op in operators() if any(variant.needs & sets for variant in variants(op, target))}
    for name, case in every:
        if case.node.op in served and (
            new := {kernel for kernel in kernels_of(case, target) if re.search(SETS, kernel)} - seen
        ):
            locked[name] = case
            seen |= new
    return locked


def kernels_of(case: Case, target: Target) -> set[str]:
    return {kernel for step in lowered(graph_of(case.node), target).steps for kernel in step.kernels}


def work(case: Case) -> int:
    """The number of multiply-accumulates plus elements in and out."""
    tensors = [t for t in (*case.node.inputs, *case.node.outputs) if t is not None]
    return sum(step.call.macs for step in lowered(graph_of(case.node), HOST).steps) + sum(t.size for t in tensors)


def measured(core: str) -> dict[str, Counts]:
    """Table of perf.lock -> counts by name. All models of a core are in one program."""
    card = find(core)
    cases = locked_cases(core)
    projects = [emit(make_plan(graph_of(c.node), card.target), n.replace("-", "_")) for n, c in cases.items()]
    jobs = [Job(values_of(case, graph_of(case.node)), i) for i, case in enumerate(cases.values())]
    modes = list(whole_models(core))
    for project in modes:
        jobs.append(Job(random_inputs(project.plan.graph), len(projects), by_step=True))
        projects.append(project)
    results = iter(run_jobs(build(projects, card), jobs))
    locked = {described(name, case): next(results).counts[0] for name, case in cases.items()}
    tables = {core: locked} if locked else {}
    for project in modes:
        names = [f"{i} {step.node.op}" for i, step in enumerate(project.plan.steps)]
        tables[f"{core}-{project.name}"] = dict(zip(names, next(results).counts, strict=True))
    return tables


def whole_models(core: str) -> Iterator[Project]:
    model = MODEL if core == MAIN else WHOLE.get(core)
    if model is not None:
        plan = make_plan(builtin()[model](), find(core).target)
        for mode in get_args(Mode) if core == MAIN else ("compiled",):
            yield emit(plan.printed(mode=mode), f"{model}_{mode}")


def described(name: str, case: Case) -> str:
    output = case.node.outputs[0]
    return f"{name} {output.type} {'×'.join(map(str, output.shape))}".rstrip()


def changes(counts: Counts, locked: Counts) -> Iterator[str]:
    """The changes of counts, in words."""
    for name in chain(locked, (name for name in counts if name not in locked)):
        if name not in counts or name not in locked:
            yield f"{name}: {'not there any more' if name in locked else 'new'}"
        elif abs(counts[name] - locked[name]) > MOST * locked[name]:
            share = 100 * (counts[name] / max(locked[name], 1) - 1)
            yield f"{name}: {locked[name]:,} -> {counts[name]:,} instructions ({share:+.1f} %)"


def read_lock() -> dict[str, dict[str, Any]]:
    return tomllib.loads(LOCK.read_text(encoding="utf-8")) if LOCK.exists() else {}


def write_lock(core: str, compiler: str, tables: dict[str, Counts]) -> None:
    """Writes the tables of a core, and by which compiler they are. Those of other cores stay."""
    old = read_lock()
    compilers = {**old.pop("compilers", {}), core: compiler}
    text = [HEAD + "[compilers]", *(f'"{name}" = "{said}"' for name, said in sorted(compilers.items()))]
    for table, counts in sorted({**old, **tables}.items()):
        text += [f"\n[{table}]", *(f'"{name}" = {count}' for name, count in counts.items())]
    LOCK.write_text("\n".join(text) + "\n", encoding="utf-8")


@pytest.mark.parametrize("core", sorted({*CORES, *WHOLE}))
def test_instructions_are_as_locked(core: str, request: pytest.FixtureRequest) -> None:
    card = find(core)
    need_tools(card.compiler, card.emulator)
    runner = runner_of(card)
    if isinstance(runner, Qemu) and runner.counter(card) is None:
        pytest.skip("QEMU takes no plugins here")
    compiler = card.toolchain.version.splitlines()[0]
    locked = read_lock()
    if request.config.getoption("refresh_perf"):
        return write_lock(core, compiler, measured(core))
    if (known := locked["compilers"].get(core)) != compiler:
        message = f"perf.lock is of {known}, here is {compiler}"
        return pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    tables = measured(core)
    wrong = [f"{table}: {line}" for table, counts in tables.items() for line in changes(counts, locked.get(table, {}))]
    assert not wrong, "\n".join(["if it is meant: pytest tests/kernels/test_perf.py --refresh-perf", *wrong])
    return None


def test_every_kernel_of_an_instruction_set_is_locked() -> None:
    """All but those that get their input piece by piece, which only plans by rows call, and those of uint8 and of
    weights that leave int8, which have the loops of others."""
    headers = "".join(path.read_text(encoding="utf-8") for path in KERNELS.rglob("*.h"))
    named = {name for name in re.findall(r"^TW_KERNEL\((\w+)\)", headers, re.MULTILINE) if re.search(SETS, name)}
    locked = {
        kernel
        for core in CORES
        for case in locked_cases(core).values()
        for kernel in kernels_of(case, find(core).target)
    }
    named = {name for name in named if not re.search("_w16_|_again_|_unsigned_", name)}
    assert named - locked == {f"tw_fully_connected_sums_{name}_s8" for name in ("dsp", "mve", "tiles")}


def test_changes_are_named() -> None:
    locked = {"a": 1000, "b": 1000, "gone": 1}
    assert list(changes({"a": 1010, "b": 989, "c": 5}, locked)) == [
        "b: 1,000 -> 989 instructions (-1.1 %)",
        "gone: not there any more",
        "c: new",
    ]
