"""Simulated cores: bits, instructions and cycles of programs on VexRiscv, Ibex and CV32E40P as their makers' Verilog.

A count of cycles is compared with the core's own counter, mcycle.
"""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import deep_but, need_tools, needs

from twinfer.aot.board.rtl.architecture import CORES, Verilated
from twinfer.aot.build.firmware import build
from twinfer.aot.build.jobs import INPUTS, TICKS, job_file
from twinfer.aot.build.project import write_project
from twinfer.aot.build.runner import Job, run_jobs, runner_of
from twinfer.aot.build.targets import Card, find, names
from twinfer.aot.print.emit import Project, emit
from twinfer.bench.measure.embedded import Measurement, every, measure_on
from twinfer.bench.measure.embedded_report import embedded_tables
from twinfer.bench.models.source import load
from twinfer.runtime.errors import ToolError
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.tools import run_tool

MAIN = "riscv32-ibex"
SIMULATED = [name for name in names() if find(name).board == "rtl"]

#: The cores whose answers never come from a cache, so that a call takes the same cycles every time.
EXACT = ("riscv32-ibex", "riscv32-cv32e40p")


@pytest.fixture(autouse=True)
def need_core(request: pytest.FixtureRequest, kept_builds: None) -> None:
    """Compiler, Verilator and the core of the test's card; a core is translated once."""
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    card = find(params.get("core", MAIN))
    need_tools(card.compiler, "verilator", "g++")
    needs(f"pythondata_cpu_{card.machine}")


def digits(card: Card) -> tuple[Project, list[Any]]:
    graph = load("digits_int8").graph
    return emit(make_plan(graph, card.target), "digits_int8"), random_inputs(graph)


@pytest.mark.parametrize("core", deep_but(SIMULATED, MAIN))
def test_bits_and_instructions_are_qemus_and_cycles_more(core: str) -> None:
    """A run whole, with its stack, and step by step, beside the same program of the same instructions in QEMU."""
    card = find(core)
    project, inputs = digits(card)
    emulated = dataclasses.replace(find("riscv32"), flags=card.flags)
    need_tools(emulated.emulator)
    jobs = [Job(inputs), Job(inputs, paint=True), Job(inputs, by_step=True)]
    here, there = (run_jobs(build(project, each), jobs) for each in (card, emulated))
    for own, other in zip(here, there, strict=True):
        assert [value.tobytes() for value in own.outputs] == [value.tobytes() for value in other.outputs]
        assert (own.counts, own.stack_bytes) == (other.counts, other.stack_bytes)
    whole, painted, steps = here
    assert not painted.cycles
    assert whole.counts[0] < whole.cycles[0] < 2 * whole.counts[0]
    assert all(instructions <= cycles for instructions, cycles in zip(steps.counts, steps.cycles, strict=True))
    assert 0.98 * whole.cycles[0] < sum(steps.cycles) < 1.02 * whole.cycles[0]


@pytest.mark.parametrize("core", deep_but(SIMULATED, MAIN))
def test_cycles_are_those_of_the_cores_own_counter(core: str, tmp_path: Path) -> None:
    """Between two marks as many cycles were simulated as mcycle counted; a cache's lines come and go between them."""
    clock = ("-DTW_CLOCK=mcycle", *(["-DTW_CLOCK_INHIBITED"] if core == "riscv32-cv32e40p" else []))
    card = find(core)
    card = dataclasses.replace(card, flags=(*card.flags, *clock))
    project, inputs = digits(card)
    firmware, runner = build(project, card), Verilated(card)
    (tmp_path / INPUTS).write_bytes(job_file(firmware, [Job(inputs), Job(inputs, by_step=True)], clock=True))
    run_tool([*runner.words(firmware.elf), hex(card.toolchain.address(firmware.elf, "tw_mark"))], tmp_path)
    simulated = np.array([int(line.split()[0]) for line in (tmp_path / "marks.txt").read_text().splitlines()])
    counted = np.fromfile(tmp_path / TICKS, np.uint64).astype(np.int64)
    assert len(simulated) == len(counted) == 2 * (3 + 1 + len(project.layers))
    off = abs(np.diff(simulated) - np.diff(counted)).max()
    assert off == 0 if core in EXACT else off < 200
    assert simulated[-1] - simulated[0] > 1_500_000


def test_a_count_repeats_and_slow_flash_is_waited_for() -> None:
    """The same cycles every time; with wait states more, fewer where a fetch brings more, and no other instructions."""
    card = find(MAIN)
    project, inputs = digits(card)
    twice = [run_jobs(build(project, card), [Job(inputs)])[0] for _ in range(2)]
    assert twice[0].cycles == twice[1].cycles
    slow = [
        run_jobs(build(project, dataclasses.replace(card, flash_wait_states=2, flash_fetch_bytes=fetch)), [Job(inputs)])
        for fetch in (4, 16)
    ]
    (narrow,), (wide,) = slow
    assert twice[0].cycles < wide.cycles < narrow.cycles
    assert twice[0].counts == wide.counts == narrow.counts


def test_bench_shows_a_count_and_no_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    source, card = load("digits_int8"), find(MAIN)
    (row,) = measure_on(source, card, Measurement(every(modes=["compiled"]), layers=True, cycles=True))
    assert row["same_bits"] is True
    assert row["cycles"]["cycles"] > row["instructions"]
    assert "estimate" not in row
    assert sum(layer["cycles"] for layer in row["layers"]) == pytest.approx(row["cycles"]["cycles"], rel=0.02)
    console = Console(width=200)
    for each in embedded_tables([row]):
        console.print(each)
    shown = capsys.readouterr().out
    assert f"{row['cycles']['cycles']:,}" in shown
    assert "counted in Verilator's Ibex" in shown
    assert "stimate" not in shown


def test_the_self_test_of_an_emitted_folder_runs(tmp_path: Path) -> None:
    card = find(MAIN)
    write_project(make_plan(load("digits_int8").graph, card.target), "m", tmp_path / "made", card=card)
    command = ["make", "-s", "-C", str(tmp_path / "made"), "test", f"PYTHON={sys.executable}"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert "ok" in told.stdout + told.stderr


def test_memory_that_is_not_there_is_told() -> None:
    """An address without memory ends the simulation with that address."""
    card = find(MAIN)
    project, inputs = digits(card)
    code = dict(project.code)
    code["digits_int8.c"] = code["digits_int8.c"].replace(
        "return TW_OK;", "*(volatile int *)0x70000000 = 1;\n    return TW_OK;"
    )
    assert code["digits_int8.c"] != project.code["digits_int8.c"]
    with pytest.raises(ToolError, match="no memory at 0x70000000"):
        run_jobs(build(dataclasses.replace(project, code=code), card), [Job(inputs)])


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = runner_of(find(MAIN))
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "which", lambda name: None)
        with pytest.raises(ToolError, match="verilator is not installed: apt-get install verilator"):
            runner.need()
    monkeypatch.setattr("twinfer.aot.board.rtl.architecture.find_spec", lambda name: None)
    with pytest.raises(ToolError, match=r"pythondata-cpu-ibex: pip install 'twinfer\[rtl\]'"):
        runner.need()


def test_every_core_says_what_it_is() -> None:
    assert {find(name).machine for name in SIMULATED} == set(CORES)
    assert "memory answers in 1 cycle" in runner_of(find(MAIN)).place
    slow = dataclasses.replace(find(MAIN), flash_wait_states=3, flash_fetch_bytes=16)
    assert "flash in 4 cycles for 16 bytes" in runner_of(slow).place
