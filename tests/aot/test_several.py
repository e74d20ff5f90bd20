"""Several models in one folder: kernels shared, one arena for all, the bits of each; clashing names are refused."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import tiny
from cases import interpreted
from needs import deep_but, need_tools
from test_project import QUICK, make

from twinfer.aot.build import boards
from twinfer.aot.build.firmware import build
from twinfer.aot.build.fits import check_fit_together, check_fits
from twinfer.aot.build.project import write_all
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.sizes import Sizes, Symbol
from twinfer.aot.build.targets import find
from twinfer.aot.print.blocks import Memory
from twinfer.aot.print.emit import emit
from twinfer.aot.print.interface import Stack
from twinfer.aot.print.several import emit_all
from twinfer.runtime.errors import InvalidArgumentError, ToolError
from twinfer.runtime.options import Mode, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.run import isa
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.target import GENERIC, HOST, Bank


def plans(mode: Mode) -> dict[str, Plan]:
    names = ("dense", "conv", "state")
    return {name: make_plan(tiny.MODELS[name]().graph, GENERIC, Options(mode=mode)) for name in names}


def models(mode: Mode) -> list[tuple[str, Plan, str]]:
    return [(name, plan, "") for name, plan in plans(mode).items()]


@pytest.mark.parametrize("mode", deep_but(get_args(Mode), "interpreted"))
def test_builds_and_passes(mode: Mode, tmp_path: Path) -> None:
    """Self-tests of all models pass over the one static arena, in a library of all."""
    write_all(models(mode), "all_of_them", tmp_path / "c")
    done = make(tmp_path / "c", QUICK, "all", "test")
    assert done.returncode == 0, done.stdout + done.stderr
    for name in plans(mode):
        assert f"{name}: ok" in done.stdout


@pytest.mark.parametrize("odd", range(3))
def test_kernels_of_two_of_three_models(odd: int) -> None:
    """Two alike share their instances; the third has its own, whichever it is. All take turns in the largest arena."""
    target, options = GENERIC, Options(mode="interpreted")
    graphs = [tiny.dense().graph, tiny.dense().graph]
    graphs.insert(odd, tiny.conv().graph)
    three = {name: make_plan(graph, target, options) for name, graph in zip("abc", graphs, strict=True)}
    projects = emit_all(three, "g")
    alone = [set(emit(plan, name).instances) for name, plan in three.items()]
    two = [own for i, own in enumerate(alone) if i != odd]
    assert two[0] == two[1] != set()
    shared = {kernel for kernel in set().union(*alone) if sum(kernel in own for own in alone) > 1}
    for project, own in zip(projects, alone, strict=True):
        text = project.code[f"{project.name}.c"]
        defined = {kernel for kernel in own if f"TW_SHARED({kernel}, " in text}
        assert defined == own - shared
    assert {
        kernel for kernel in shared if f"TW_SHARED({kernel}, g_{kernel})" in projects[0].common["g_kernels.c"]
    } == shared
    largest = max(Memory(plan).nbytes(Region.ARENA) for plan in three.values())
    assert f"#define G_ARENA_BYTES {largest}\n" in projects[0].common["g.h"]


def test_models_for_several_memories_are_compiled_one_by_one(tmp_path: Path) -> None:
    target = find("cortex-m4").target.with_banks(Bank("block", 0x4000))
    listed = [(name, make_plan(tiny.dense().graph, target), "") for name in "ab"]
    with pytest.raises(InvalidArgumentError, match=r"g: cortex-m4 has several memories: compile its models one by one"):
        write_all(listed, "g", tmp_path / "c")
    with pytest.raises(InvalidArgumentError, match="2g"):
        emit_all(plans("compiled"), "2g")
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("mode", get_args(Mode))
def test_firmware(mode: Mode, board_tools: None) -> None:
    """One program under QEMU runs the models in turn, over one arena, with the bits of the interpreter."""
    card = find("cortex-m4")
    graphs = {name: tiny.MODELS[name]().graph for name in ("dense", "conv")}
    own = {name: make_plan(graph, card.target, Options(mode=mode)) for name, graph in graphs.items()}
    firmware = build(emit_all(own, "g"), card)
    inputs = [random_inputs(graph) for graph in graphs.values()]
    order = [0, 1, 0, 1]
    results = run_jobs(firmware, [Job(inputs[i], i) for i in order], count=False)
    for i, result in zip(order, results, strict=True):
        want = interpreted(list(graphs.values())[i], inputs[i], HOST, isa.level())
        assert all(np.array_equal(g, w) for g, w in zip(result.outputs, want, strict=True))


@pytest.mark.parametrize(
    ("names", "group"),
    [
        (("net", "Net", "x"), "g"),
        (("x", "net_static", "net"), "g"),
        (("net", "x", "net_test"), "g"),
        (("net_data", "x", "net"), "g"),
        (("x", "y", "g_kernels"), "g"),
        (("x", "y", "G_static"), "g"),
        (("x", "y", "g"), "g_test"),
        (("m", "n", "x"), "M"),
        (("m", "x", "m_data"), "g"),
    ],
)
def test_names_that_clash_are_told(names: tuple[str, ...], group: str, tmp_path: Path) -> None:
    """Two of three models, or a model and the group, would have a file or program of one name, in any case."""
    listed = [(name, tiny.dense().printed(mode="interpreted"), "") for name in names]
    with pytest.raises(InvalidArgumentError, match=r"would both define '.*': rename a file"):
        write_all(listed, group, tmp_path / "c")
    with pytest.raises(InvalidArgumentError, match=f"two models are called '{names[0]}'"):
        write_all([*listed, listed[0]], group, tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_names_that_only_look_alike(tmp_path: Path) -> None:
    """The beginning of another one's name, a macro's word, a function's."""
    names = ("net", "net_input", "net_0", "netting", "network_run")
    write_all([(name, tiny.dense(), "") for name in names], "net_all", tmp_path)
    done = make(tmp_path, QUICK, "test")
    assert [f"{name}: ok" in done.stdout for name in names] == [True] * 5, done.stdout + done.stderr


@pytest.mark.parametrize(("odd", "change"), [(0, {"target": HOST}), (2, {"options": Options(mode="interpreted")})])
def test_one_of_three_is_planned_otherwise(odd: int, change: dict[str, Any]) -> None:
    plans = {}
    for i, name in enumerate(("a", "b", "c")):
        target, options = GENERIC, Options()
        if i == odd:
            target, options = change.get("target", target), change.get("options", options)
        plans[name] = make_plan(tiny.dense().graph, target, options)
    with pytest.raises(InvalidArgumentError, match="all models of g need the same target and the same options"):
        emit_all(plans, "g")


def test_models_that_fit_alone_but_not_together() -> None:
    """Exact to the byte: the largest arena counts once, all states and all constants count."""
    graphs = {
        "one": tiny.state().graph,
        "two": tiny.conv().graph,
        "three": tiny.flow().graph,
        "four": tiny.state().graph,
    }
    card = replace(find("cortex-m4"), name="tiny", stack_bytes=100)
    projects = emit_all({name: make_plan(graph, card.target) for name, graph in graphs.items()}, "g")
    by_name = {project.name: project for project in projects}
    arena, states = -(-by_name["two"].plan.arena_bytes // 16) * 16, 48 + 16 + 48
    assert [by_name[name].plan.state_bytes for name in graphs] == [36, 0, 8, 36]
    assert arena > max(by_name[name].plan.arena_bytes for name in ("one", "three", "four"))
    constants = sum(array.array.nbytes for project in projects for array in project.constants.all)
    assert constants > max(project.constants.nbytes for project in projects) > 0
    fitting = replace(card, ram_bytes=arena + states + 100, flash_bytes=constants + 64)
    check_fit_together(projects, fitting)
    for project in projects:
        check_fits(project, replace(fitting, ram_bytes=fitting.ram_bytes - 1, flash_bytes=fitting.flash_bytes - 1))
    with pytest.raises(ToolError, match=f"one, two, three, four need {arena} B of arena and {states} B of state, tiny"):
        check_fit_together(projects, replace(fitting, ram_bytes=fitting.ram_bytes - 1))
    with pytest.raises(ToolError, match=f"one, two, three, four need at least {constants} B of flash for weights"):
        check_fit_together(projects, replace(fitting, flash_bytes=fitting.flash_bytes - 1))


@pytest.mark.usefixtures("board_tools")
@pytest.mark.parametrize("odd", [0, 2])
def test_all_models_of_a_folder_are_measured(odd: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its own stack in its header, and fits by itself; all together fit the RAM. Else nothing is written."""
    card, names = find("cortex-m4"), ("one", "two", "three")
    listed = [(name, make_plan(tiny.state().graph, card.target), f"{i}" * 64) for i, name in enumerate(names)]
    stacks = {name: Stack(100 + i) for i, name in enumerate(names)}
    flash = dict.fromkeys(names, 10)
    monkeypatch.setattr(boards, "worst_stack", lambda project, card: stacks[project.name])
    monkeypatch.setattr(boards, "sizes", lambda project, card: Sizes((Symbol("", "code", flash[project.name]),), 0))
    write_all(listed, "g", tmp_path / "c", card=card)
    for name, stack in stacks.items():
        assert f"#define {name.upper()}_STACK_BYTES {stack.nbytes} " in (tmp_path / "c" / f"{name}.h").read_text()
    for name, _, sha256 in listed:
        assert f'"{sha256}"' in (tmp_path / "c" / f"{name}_data.c").read_text()
    flash[names[odd]] = card.flash_bytes
    with pytest.raises(ToolError, match=f"{names[odd]} needs"):
        write_all(listed, "g", tmp_path / "d", card=card)
    flash[names[odd]] = 10
    blocks = Memory(listed[0][1])
    least = blocks.nbytes(Region.ARENA) + 3 * blocks.nbytes(Region.STATE) + card.stack_bytes
    with pytest.raises(ToolError, match="one, two, three need"):
        write_all(listed, "g", tmp_path / "d", card=replace(card, ram_bytes=least - 1))
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_in_turn_in_one_arena(compiler: str, tmp_path: Path) -> None:
    """A program of a user's runs both models in turn in the arena of the group; each gives its own bits every time."""
    need_tools(compiler)
    own = [(name, plan, "") for name, plan in plans("interpreted").items() if name != "state"]
    write_all(own, "g", tmp_path)
    done = make(tmp_path, f"CC={compiler}", "all")
    assert done.returncode == 0, done.stdout + done.stderr
    inputs = {name: random_inputs(plan.graph) for name, plan, _ in own}
    runs = "".join(_run(name, b"".join(value.tobytes() for value in inputs[name])) for name, _, _ in own)
    (tmp_path / "main.c").write_text(
        f'#include "g.h"\n#include <stdio.h>\nint main(void) {{\n{runs * 2}return 0;\n}}\n'
    )
    command = [compiler, "main.c", "build/libg.a", "-lm", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=1200)
    calls = " || ".join(["!g_arena()", *(f"{name}_run_static(0, 0) > 9" for name in inputs)])
    (tmp_path / "main.cpp").write_text(f'#include "g.h"\nint main() {{ return {calls}; }}\n')
    cpp = {"gcc": "g++", "clang": "clang++"}[compiler]
    subprocess.run([cpp, "main.cpp", "build/libg.a", "-lm", "-o", "of_cpp"], cwd=tmp_path, check=True, timeout=1200)
    got = subprocess.run([tmp_path / "main"], capture_output=True, check=True, timeout=1200).stdout
    want = [interpreted(plan.graph, inputs[name], HOST, isa.level()) for name, plan, _ in own]
    assert got == b"".join(value.tobytes() for values in want for value in values) * 2


def _run(name: str, content: bytes) -> str:
    """The C that runs a model of one input and one output, and writes the output."""
    up, values = name.upper(), ", ".join(map(str, content))
    return f"""{{
    _Alignas(16) static const unsigned char in[] = {{{values}}};
    _Alignas(16) static unsigned char out[{up}_OUTPUT_0_BYTES];
    const void *const inputs[] = {{in}};
    void *const outputs[] = {{out}};
    if ({name}_run(g_arena(), inputs, outputs) != 0) return 1;
    if (fwrite(out, 1, sizeof out, stdout) != sizeof out) return 1;
}}
"""
