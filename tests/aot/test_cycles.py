"""Estimates of cycles: straight runs, what LLVM and Arm say of them, waits for flash, and time and energy of a card."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from twinfer.aot.board.arm import pipelines
from twinfer.aot.board.arm.pipelines import PIPELINES
from twinfer.aot.build import mca
from twinfer.aot.build.cycles import Estimate, added_up, estimated, modelled, waits
from twinfer.aot.build.firmware import build
from twinfer.aot.build.mca import Instruction, Llvm, Straight, listed, need_llvm, straights
from twinfer.aot.build.runner import PATIENCE, ByAddress, runner_of
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.bench.lab.explain_figures import beside_published
from twinfer.bench.measure.cycles import figures, need_model
from twinfer.bench.models.source import load
from twinfer.command_line.main import main
from twinfer.runtime.errors import ToolError
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs

M4 = find("cortex-m4")

#: A loop over words that calls a function: as llvm-objdump lists it.
LISTING = """
firmware.elf:\tfile format elf32-littlearm

00000100 <sum>:
     100: 30 b5        \tpush\t{r4, r5, lr}
     102: 51 f8 04 3b  \tldr\tr3, [r1], #4
     106: 18 44        \tadd\tr0, r3
     108: 01 3a        \tsubs\tr2, #1
     10a: fa d1        \tbne\t0x102 <sum+0x2>         @ imm = #-12
     10c: 00 f0 78 f8  \tbl\t0x200 <done> @ imm = #240
     110: 30 bd        \tpop\t{r4, r5, pc}
     112: 00 00 00 00  \t.word\t0x00000000

00000200 <done>:
     200: 4770         \tbx\tlr
     202: bf00         \tnop
"""
CODE = listed(LISTING)


def executed(**counts: int | tuple[int, int]) -> ByAddress:
    """Addresses x100, x102, …: executions or, of branches, executions and how many were taken."""
    pairs = {int(at[1:], 16): count if isinstance(count, tuple) else (count, 0) for at, count in counts.items()}
    return ByAddress({at: n for at, (n, _) in pairs.items()}, {at: t for at, (_, t) in pairs.items() if t})


SUM = executed(x100=1, x102=10, x106=10, x108=10, x10a=(10, 9), x10c=(1, 1), x110=(1, 1), x200=(1, 1))


def run_of(*lines: str) -> list[Instruction]:
    """Instructions of two bytes, from lines of assembly."""
    return [Instruction(2 * i, 2, *(*line.split(" ", 1), "")[:2]) for i, line in enumerate(lines)]


# -- straight runs -----------------------------------------------------------------------------------------------------


def test_a_listing_is_read_without_comments_and_words() -> None:
    assert CODE[0x10A] == Instruction(0x10A, 2, "bne", "0x102 <sum+0x2>")
    assert CODE[0x102] == Instruction(0x102, 4, "ldr", "r3, [r1], #4")
    assert (CODE[0x200], CODE[0x202]) == (Instruction(0x200, 2, "bx", "lr"), Instruction(0x202, 2, "nop", ""))
    assert 0x112 not in CODE


def test_runs_end_at_branches_and_where_counts_change() -> None:
    """The push, the loop, the call, the return, and what was called: with their bytes."""
    found = [*straights(CODE, SUM)]
    assert [(run.instructions[0].address, len(run.instructions)) for run in found] == [
        (0x100, 1), (0x102, 4), (0x10C, 1), (0x110, 1), (0x200, 1)
    ]  # fmt: skip
    assert [(run.count, run.taken, run.nbytes) for run in found[:3]] == [(1, 0, 2), (10, 9, 10), (1, 1, 4)]


def test_what_is_not_listed_is_refused() -> None:
    with pytest.raises(KeyError):
        [*straights(CODE, executed(x112=1))]
    firmware: Any = SimpleNamespace(elf="firmware.elf", card=M4)
    llvm: Any = SimpleNamespace(listing=lambda elf, pipeline: CODE)
    with pytest.raises(ToolError, match=r"firmware.elf: what was executed at 0x112 is not in the listing"):
        estimated(firmware, executed(x112=1), PIPELINES["cortex-m4"], llvm)


# -- cycles ------------------------------------------------------------------------------------------------------------


def cycles_of(core: str, *lines: str) -> tuple[float, frozenset[str]]:
    """The cycles of a run that is not left by a branch, and what the model lacks."""
    pipeline, run = PIPELINES[core], run_of(*lines)
    costs, lacking = need_llvm(pipeline.since).costs([run], pipeline)
    straight = Straight(tuple(run), 1, 0, 2 * len(run))
    return added_up([straight], costs, lacking, pipeline, M4, 0).cycles, lacking


@pytest.mark.usefixtures("llvm_mca")
@pytest.mark.parametrize(
    ("cycles", "lines"),
    [
        (1, ["adds r0, r0, #1"]),
        (3, ["ldr r0, [r1]", "adds r2, r2, #1"]),  # a load alone takes 2
        (4, ["ldr r0, [r1]", "ldr r2, [r3]", "adds r4, r4, #1"]),  # two are pipelined
        (3, ["ldr r0, [r1]", "adds r0, r0, #1"]),  # and the sum waits no longer than that
        (3, ["ldr r0, [r1]", "str r0, [r3]"]),  # Arm's own examples
        (4, ["ldr r0, [r1, r5]", "ldr r1, [r2]", "ldr r2, [r3, #4]"]),
        (5, ["ldr r0, [r1]", "ldrd r2, r3, [r4]"]),
        (2, ["str r0, [r1]", "adds r2, r2, #1"]),
        (6, ["ldm r0, {r4, r5, r6, r7}", "adds r1, r1, #1"]),  # 1 + 4
        (4, ["push {r4, r5, lr}"]),
        (3, ["ldrd r0, r1, [r2]"]),
        (5, ["vldmia r0, {d0, d1}"]),
        (4, ["smlad r0, r1, r2, r0", "smlad r3, r1, r2, r3", "smlad r4, r1, r2, r4", "smlad r5, r1, r2, r5"]),
        (1, ["bl 0x1234 <sum+0x4>"]),  # the call itself, not llvm-mca's 100 cycles for what it calls
        (3, ["cmp r0, #0", "it eq", "addeq r1, r1, #1"]),
        (2, ["cbz r0, 0x1234 <sum>", "nop"]),
    ],
)
def test_cycles_that_can_be_counted_by_hand(cycles: int, lines: list[str]) -> None:
    assert cycles_of("cortex-m4", *lines) == (cycles, frozenset())


@pytest.mark.usefixtures("llvm_mca")
def test_long_products_take_longer_on_the_m3() -> None:
    for line, cycles in (("smull r0, r1, r2, r3", 3), ("umlal r0, r1, r2, r3", 4), ("mla r0, r1, r2, r3", 2)):
        assert cycles_of("cortex-m3", line) == (cycles, frozenset())
        assert cycles_of("cortex-m4", line)[0] < cycles


@pytest.mark.usefixtures("llvm_mca")
def test_the_m7_issues_two_at_once_and_lacks_it() -> None:
    """What a model lacks takes 1 cycle; instructions without their IT lose their conditions."""
    assert cycles_of("cortex-m7", "add.w r0, r0, #1", "add.w r1, r1, #1") == (1, frozenset())
    assert cycles_of("cortex-m7", *(f"add.w r{i}, r{i}, #1" for i in range(12))) == (6, frozenset())
    cycles, lacking = cycles_of("cortex-m7", "ite eq", "addeq r1, r1, #1", "addne.w r2, r2, #1")
    assert (cycles, lacking) == (2, {"ite"})


@pytest.mark.usefixtures("llvm_mca")
def test_a_loop_with_its_branches() -> None:
    """10 times ldr (2), add, subs, bne (1 each); 12 branches were taken, 2 cycles each; push and pop take 1 + 3."""
    pipeline = PIPELINES["cortex-m4"]
    runs = [*straights(CODE, SUM)]
    llvm = need_llvm()
    costs, lacking = llvm.costs([run.instructions for run in runs], pipeline)
    found = added_up(runs, costs, lacking, pipeline, M4, llvm.version)
    assert found.cycles == 10 * 5 + 12 * 2 + 4 + 4 + 1 + 1
    assert (found.instructions, found.branch_cycles, found.flash_cycles, found.unmodelled) == (44, 24, 0, 0)
    lacks = added_up(runs, costs, frozenset({"subs", "push"}), pipeline, M4, llvm.version)
    assert (lacks.unmodelled, lacks.unmodelled_share) == (10 + 1, 11 / 44), "as often as they are executed"
    assert found.source.startswith(f"llvm-mca {llvm.version}: LLVM's model of Cortex-M4")
    slow = dataclasses.replace(M4, flash_wait_states=3, flash_fetch_bytes=4)
    there = added_up(runs, costs, lacking, pipeline, slow, llvm.version)
    # 12 branches wait 3 cycles; the loop's 10 bytes take 10 cycles, the call's 4 bytes 4, the return's 2 bytes 2
    assert there.flash_cycles == 12 * 3 + 10 * 5 + 3 + 1
    assert there.cycles == found.cycles + there.flash_cycles


@pytest.mark.parametrize(
    ("waited", "nbytes", "cycles", "states", "fetch"),
    [(0, 64, 1, 0, 1), (0, 16, 8, 5, 16), (4, 32, 8, 5, 16), (0, 32, 12, 5, 16), (11, 8, 1, 5, 4), (1.5, 4, 1.5, 5, 8)],
)
def test_waits_for_flash(waited: float, nbytes: int, cycles: float, states: int, fetch: int) -> None:
    """Fetches take 1 + states cycles each; code waits for what they take longer than it does."""
    assert waits(nbytes, cycles, states, fetch) == waited


# -- cards and tools ---------------------------------------------------------------------------------------------------


ABOUT = """[own]
base = "cortex-m4"
clock_mhz = 120
energy_pj_per_cycle = 92.5
flash_wait_states = 5
flash_fetch_bytes = 16
"""


def test_a_card_says_clock_energy_and_flash(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(ABOUT)
    card = find(path)
    assert (card.clock_mhz, card.energy_pj_per_cycle) == (120, 92.5)
    assert (card.flash_wait_states, card.flash_fetch_bytes) == (5, 16)
    told = Estimate(6_000_000, 4_000_000, 1, 2, 40_000, "somewhere")
    shown = figures(told, card)
    assert (shown["cycles"], shown["cycles_per_instruction"], shown["unmodelled_share"]) == (6_000_000, 1.5, 0.01)
    assert (shown["ms"], shown["microjoules"], shown["source"]) == (50, 555, "somewhere")
    assert (figures(told, M4)["ms"], figures(told, M4)["microjoules"]) == (None, None)


def found(*programs: Llvm) -> Sequence[Llvm]:
    return programs


def test_the_right_llvm_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual one if it is new enough, else the newest; a clear message if none is, or none is there."""
    usual, newer, newest = Llvm(14, ""), Llvm(19, "-19"), Llvm(22, "-22")
    monkeypatch.setattr(mca, "_installed", lambda: found(usual, newest, newer))
    assert (need_llvm(14), need_llvm(19)) == (usual, newest)
    monkeypatch.setattr(mca, "_installed", lambda: found(usual))
    with pytest.raises(ToolError, match=r"llvm-mca 14 has no scheduling model .* apt-get install llvm-19"):
        need_model(find("cortex-m55"))
    need_model(M4)
    monkeypatch.undo()
    monkeypatch.setattr(mca.shutil, "which", lambda name: None)
    with pytest.raises(ToolError, match=r"apt-get install llvm$"):
        need_llvm()


def test_the_core_is_told_by_the_compilers_flag() -> None:
    nodsp = dataclasses.replace(M4, flags=("-mthumb", "-mcpu=cortex-m33+nodsp"))
    assert modelled(nodsp) is PIPELINES["cortex-m33"]
    with pytest.raises(ToolError, match="no scheduling model of the core of cortex-m0plus"):
        modelled(find("cortex-m0plus"))


def test_estimates_stand_beside_published_cycles() -> None:
    """Cycles are the clock over inferences per second; those of CMSIS-NN also by TFLM's recorded instructions."""
    estimate = {"cycles": 15, "cycles_per_instruction": 1.5}
    ours = {"model": "kws_int8", "target": "cortex-m4", "engine": "compiled", "instructions": 10, "estimate": estimate}
    tflm = {**ours, "engine": "tflm-cmsis", "instructions": 7_847_268, "estimate": {}}
    without = {**ours, "target": "cortex-m0", "estimate": {"error": "no model"}}
    _, *lines = beside_published({"rows": [ours, tflm, without, {**ours, "target": "cortex-m55"}]})
    published = "Plumerai 5,733,671; microTVM + CMSIS-NN 11,977,243"
    assert lines == [
        ["kws_int8", "cortex-m4", "10", "15", "1.50", published, "1.53"],
        ["kws_int8", "cortex-m55", "10", "15", "1.50", "", ""],
    ]


# -- under QEMU --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("board_tools")
def test_what_does_not_branch_goes_on() -> None:
    """Behind every instruction that was not left by a branch the next one was executed, as often at least."""
    plan = make_plan(load("kws_int8").graph, M4.target)
    told = runner_of(M4).counted_by_address(build(emit(plan, "kws_int8"), M4), random_inputs(plan.graph, 0), PATIENCE)
    assert all(0 < taken <= told.counts[at] for at, taken in told.taken.items())
    assert any(taken < told.counts[at] for at, taken in told.taken.items())
    for at, count in told.counts.items():
        behind = max(told.counts.get(at + 2, 0), told.counts.get(at + 4, 0))
        assert behind >= count - told.taken.get(at, 0), hex(at)


@pytest.mark.usefixtures("board_tools", "llvm_mca")
def test_kws_under_qemu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The estimate lies apart from the counts and leaves them; the M0 says why it has none."""
    card = tmp_path / "own.toml"
    card.write_text(ABOUT)
    rows = []
    for targets, *more in ((f"cortex-m4,cortex-m0,{card}", "--cycles"), ("cortex-m4",)):
        path, line = tmp_path / "rows.json", "bench digits_int8 --optimize balanced --engine compiled --target"
        assert main([*line.split(), targets, *more, "--json", str(path)]) == 0
        rows.append([row for row in json.loads(path.read_text())["rows"] if row["engine"] == "compiled"])
    shown = capsys.readouterr().out
    m4, m0, own = (row.pop("estimate") for row in rows[0])
    assert rows[0][:1] == rows[1]
    assert m0 == {"error": "LLVM has no scheduling model of the core of cortex-m0"}
    counted = rows[0][0]["instructions"]
    assert 1.2 * counted < m4["cycles"] < 1.7 * counted
    assert m4["cycles"] == pytest.approx(m4["cycles_per_instruction"] * counted, rel=1e-4)
    assert (m4["unmodelled_share"], m4["flash_cycles"], m4["ms"], m4["microjoules"]) == (0, 0, None, None)
    assert own["cycles"] == m4["cycles"] + own["flash_cycles"] > m4["cycles"]
    assert own["ms"] == pytest.approx(own["cycles"] / 120_000)
    assert own["microjoules"] == pytest.approx(own["cycles"] * 92.5e-6)
    assert "Estimated cycles of one inference on cortex-m4" in shown
    assert "an estimate, not a measurement" in shown
    assert "No estimate for cortex-m0: LLVM has no scheduling model of the core of cortex-m0" in shown


def test_what_arms_tables_say() -> None:
    """Cortex-M4 Technical Reference Manual, table 3-1, and the M3's long products; the least of a range."""
    m4 = {
        ("ldr", "r0, [r1]", "add"): 2, ("ldr", "r0, [r1]", "ldr.w"): 1, ("ldr", "r0, [r1]", "ldrd"): 2,
        ("vldr", "s0, [r1]", "ldr"): 1, ("vldr", "s0, [r1]", "vldr"): 1, ("ldrsb.w", "r0, [r1]", "str"): 2,
        ("str", "r0, [r1]", "ldr"): 1, ("ldrd", "r0, r1, [r2]", "ldr"): 3, ("strd", "r0, r1, [r2]", "add"): 3,
        ("ldmia.w", "r0!, {r1, r2, r3}", "ldr"): 4, ("push", "{r4, r5, r6, r7, lr}", ""): 6, ("pop", "{r4, pc}", ""): 3,
        ("vdiv.f32", "s0, s1, s2", ""): 14, ("vsqrt.f32", "s0, s1", ""): 14, ("sdiv", "r0, r1, r2", ""): 2,
        ("udiv", "r0, r1, r2", ""): 2, ("tbb", "[pc, r0]", ""): 2, ("tbh", "[pc, r0, lsl #1]", ""): 2,
        ("smull", "r0, r1, r2, r3", ""): 1, ("mla", "r0, r1, r2, r3", ""): 1, ("add.w", "r0, r1, r2", "ldr"): 1,
    }  # fmt: skip
    assert {key: pipelines.floor(*key) for key in m4} == m4
    long = {"smull": 3, "umull": 3, "smlal": 4, "umlal": 4, "mla": 2, "mls": 2, "mul": 1, "smull.w": 3}
    assert {name: pipelines.floor_m3(name, "r0, r1, r2, r3", "") for name in long} == long
    assert pipelines.floor_m3("ldr", "r0, [r1]", "ldr") == 1
    assert [pipelines.branch_cycles(name) for name in ("b", "bl", "bne.n", "cbz", "le", "letp")] == [2, 2, 2, 2, 0, 0]
