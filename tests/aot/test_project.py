"""The project folder: it builds, its self-test tells right from wrong, and other people's files are not overwritten."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import tiny
from flows import Sub
from needs import ROOT, deep_but, need_tools

from twinfer.aot.build import project as project_module
from twinfer.aot.build.fits import check_fits
from twinfer.aot.build.project import project_files, write_all, write_project
from twinfer.aot.build.sizes import sizes
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.aot.print.selftest import vectors
from twinfer.bench.models.builtin import builtin
from twinfer.runtime.errors import InvalidArgumentError, ToolError
from twinfer.runtime.graph import Graph, Node
from twinfer.runtime.op import TOLERANCE, tensor
from twinfer.runtime.options import Mode, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.target import GENERIC
from twinfer.runtime.tools import write_files

#: For make: what is only run once need not be fast.
QUICK = "CFLAGS=-std=c11 -O0 -ffp-contract=off"


def make(folder: Path, *goals: str) -> subprocess.CompletedProcess[str]:
    need_tools("make", "cc")
    return subprocess.run(["make", "-C", folder, *goals], capture_output=True, text=True, timeout=1200, check=False)


@pytest.mark.parametrize(
    ("name", "mode"), deep_but(product(tiny.MODELS, get_args(Mode)), ("flow", "compiled"), ("state", "interpreted"))
)
def test_builds_and_passes(name: str, mode: Mode, tmp_path: Path) -> None:
    write_project(tiny.MODELS[name]().printed(mode=mode), name, tmp_path / "made")
    done = make(tmp_path / "made", "all", "test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{name}: ok" in done.stdout
    assert (tmp_path / "made" / "build" / f"lib{name}.a").exists()


@pytest.fixture
def cmake() -> None:
    need_tools("cmake")


def compiled_with(folder: Path, source: str) -> list[str]:
    """The words of the command that compiles ``source`` in CMake's project ``folder``."""
    command = ["cmake", "-S", folder, "-B", folder / "out", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    subprocess.run(command, capture_output=True, timeout=1200, check=True)
    (entry,) = (e for e in json.loads((folder / "out" / "compile_commands.json").read_text())
                if e["file"].endswith(f"/{source}"))  # fmt: skip
    return shlex.split(entry["command"])


def test_cmake_subproject_takes_the_callers_flags(tmp_path: Path, cmake: None) -> None:
    """The caller sets level, machine and ABI. The folder adds only flags for exactness, and not to the caller's
    sources."""
    card = find("cortex-m4")
    slim = make_plan(tiny.dense().graph, card.target, Options(optimize="size"))
    write_project(slim, "dense", tmp_path / "made", card=card, stack_bytes=0)
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "CMakeLists.txt").write_text("""cmake_minimum_required(VERSION 3.13)
project(caller C)
set(CMAKE_C_FLAGS "-O1 -DCALLER")
add_subdirectory(made)
add_executable(caller main.c)
target_link_libraries(caller dense)
""")
    ours = compiled_with(tmp_path, "dense.c")[1:]
    ours = [word for word in ours if word.startswith("-") and not word.startswith(("-o", "-c", "-I"))]
    assert ours == ["-O1", "-DCALLER", "-ffp-contract=off", "-std=c11"]
    assert "-ffp-contract=off" not in compiled_with(tmp_path, "main.c")
    alone = compiled_with(tmp_path / "made", "dense.c")
    assert {"-mcpu=cortex-m4", "-Os", "-Wconversion", "-ffp-contract=off", "-std=c11"} <= set(alone)


@pytest.mark.parametrize("name", deep_but(tiny.MODELS, "state"))
def test_cmake_builds_and_passes(name: str, tmp_path: Path, cmake: None) -> None:
    write_project(tiny.MODELS[name](), name, tmp_path / "made")
    (tmp_path / "CMakeLists.txt").write_text(f"""cmake_minimum_required(VERSION 3.13)
project(caller CXX)
add_subdirectory(made)
add_executable(caller main.cpp)
target_link_libraries(caller {name})
""")
    call = f"{name}_run_static(nullptr, nullptr)"
    (tmp_path / "main.cpp").write_text(f'#include "{name}.h"\nint main() {{ return {call}; }}\n')
    for source, test in (("made", [f"ctest --output-on-failure -R {name}_test"]), (".", ["./caller"])):
        build = tmp_path / source / "build"
        for command in (f"cmake -S {tmp_path / source} -B {build}", f"cmake --build {build}", *test):
            folder = build if build.exists() else tmp_path
            done = subprocess.run(
                command.split(), cwd=folder, capture_output=True, text=True, timeout=1200, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
            assert "warning" not in done.stdout + done.stderr
    write_project(tiny.MODELS[name](), name, tmp_path / "made")


@pytest.mark.parametrize("end", deep_but(["data", "layers", "place", "static", "test"], "test"))
def test_names_that_end_as_files_of_ours_do(end: str, tmp_path: Path) -> None:
    """A model that is called so is built like any other, under its own terms."""
    name = f"dense_{end}"
    write_project(tiny.dense(), name, tmp_path)
    done = make(tmp_path, "test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{name}: ok" in done.stdout
    terms = {path.name: path.read_text().split("*/")[0] for path in tmp_path.glob("*.c")}
    assert len(terms) == 6
    assert {path for path, text in terms.items() if "LicenseRef-model" in text} == {f"{name}_data.c", f"{name}_test.c"}


@pytest.mark.parametrize("name", deep_but(tiny.MODELS, "dense"))
def test_changed_golden_byte_fails(name: str, tmp_path: Path) -> None:
    write_project(tiny.MODELS[name](), name, tmp_path)
    path = tmp_path / f"{name}_test.c"
    before = path.read_text()
    changed = _with_first_wanted(before, lambda old: str((int(float(old.rstrip("f"))) + 1) % 100))
    path.write_text(changed)
    done = make(tmp_path, QUICK, "test")
    assert done.returncode != 0
    assert re.search(rf"{name}: output 0: run 0, element 0(, byte 0)?: got ", done.stdout)
    assert f"{name}: FAILED" in done.stdout


def _with_first_wanted(text: str, change: Callable[[str], str]) -> str:
    """A self-test that wants another value in the first element of the first output."""
    first = r"(_test_want_0\[\d+\]\[\d+\] = \{\s*\{\s*)([^,]+)"
    changed = re.sub(first, lambda m: m[1] + change(m[2]), text)
    assert changed != text
    return changed


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (f"want + {0.9 * TOLERANCE}f * largest", "ok"),
        (f"want - {0.9 * TOLERANCE}f * largest", "ok"),
        (f"want + {1.2 * TOLERANCE}f * largest", "FAILED"),
        (f"want - {1.2 * TOLERANCE}f * largest", "FAILED"),
        ('__builtin_nanf("")', "FAILED"),
        ("__builtin_inff()", "FAILED"),
    ],
)
def test_floats_are_compared_within_the_bound(value: str, verdict: str, tmp_path: Path) -> None:
    """The bound is a share of the tensor's largest magnitude, as in verify. NaN and infinity are near no number."""
    plan = tiny.conv()
    write_project(plan, "conv", tmp_path)
    (output,) = vectors(plan, random_inputs(plan.graph))[0].outputs
    path, largest = tmp_path / "conv_test.c", f"{float(np.abs(output).max()):.9g}f"
    numbers = lambda old: value.replace("want", old).replace("largest", largest)  # noqa: E731
    path.write_text(_with_first_wanted(path.read_text(), numbers))
    assert f"conv: {verdict}" in make(tmp_path, QUICK, "test").stdout


def test_float_models_pass_on_their_own_target(tmp_path: Path, board_tools: None) -> None:
    """newlib's exp and tanh differ from glibc's, and the sign of a NaN depends on the machine."""
    card, shape = find("cortex-m4"), (1, 500)
    x, ops = tensor(shape, name="x"), ("EXP", "TANH", "LOGISTIC", "SQRT")
    ends = tuple(tensor(shape, name=op) for op in ops)
    values = np.linspace(-9, 9, 500, dtype=np.float32).reshape(shape)
    values[0, ::50] = np.resize(np.array([-np.inf, np.inf, np.nan, -0.0], np.float32), 10)
    nodes = tuple(Node(op, (x,), (y,)) for op, y in zip(ops, ends, strict=True))
    plan = make_plan(Graph("all", (x, *ends), nodes, (x,), ends), card.target)
    write_files(tmp_path, project_files(emit(plan, "m"), [values], card))
    done = make(tmp_path, "test")
    assert "m: ok" in done.stdout + done.stderr, done.stdout + done.stderr


@pytest.mark.usefixtures("board_tools")
@pytest.mark.parametrize("core", deep_but(["cortex-m0", "cortex-m4", "cortex-m55"], "cortex-m4"))
def test_boards_link_as_one_program(core: str, tmp_path: Path) -> None:
    """With -flto: functions that only the assembler or newlib calls are kept, and within reach of a branch."""
    card = find(core)
    write_project(make_plan(tiny.dense().graph, card.target), "m", tmp_path, card=card, stack_bytes=0)
    done = make(tmp_path, "test", f"ARCH={shlex.join(card.flags)} -flto")
    assert "m: ok" in done.stdout + done.stderr, done.stdout + done.stderr


def test_models_of_next_to_nothing(tmp_path: Path) -> None:
    """Nothing is compared, or fed and computed; the self-test has a variable that is called base."""
    x, y = tensor((1, 4), "INT8", 0.5, 3, name="x"), tensor((1, 4), "INT8", 0.5, data=np.arange(4), name="y")
    graphs = {"m": Graph("none", (x,), (), (x,), ()), "base": Graph("constant", (y,), (), (), (y,))}
    for name, graph in graphs.items():
        write_project(make_plan(graph), name, tmp_path / name)
        done = make(tmp_path / name, "all", "test")
        assert f"{name}: ok" in done.stdout, done.stdout + done.stderr


def counter() -> Plan:
    """Adds its input to a state of 12 bytes, and gives three times the new one."""
    main = Sub("main")
    x, handle = main.input((3,)), main.handle()
    new = main.add(main.read(handle, (3,)), x)
    main.assign(handle, new)
    return make_plan(main.graph([main.mul(new, np.array([3, 3, 3], np.float32))]), find("cortex-m4").target)


def test_arrays_of_blocks(tmp_path: Path) -> None:
    """Instances of a model in arrays of arenas and states, and in an array of buffers for both: each goes its way."""
    write_project(counter(), "m", tmp_path)
    assert counter().state_bytes == 12
    (tmp_path / "main.c").write_text("""#include "m.h"
#include <stdio.h>
_Alignas(M_ARENA_ALIGN) static unsigned char arenas[3][M_ARENA_BYTES], states[3][M_STATE_BYTES], all[3][M_MEMORY_BYTES];
int main(void) {
    int i, run;
    for (i = 0; i < 3; ++i) m_reset(states[i]);
    for (i = 0; i < 3; ++i) m_reset(all[i] + M_STATE_OFFSET);
    for (run = 0; run < 3; ++run) {
        for (i = 0; i < 6; ++i) {
            const float x[] = {(float)i, 1, 2};
            float y[3] = {0, 0, 0};
            void *arena = i < 3 ? arenas[i] : all[i - 3], *state = i < 3 ? states[i] : all[i - 3] + M_STATE_OFFSET;
            const void *const inputs[] = {x};
            void *const outputs[] = {y};
            int status = m_run(arena, state, inputs, outputs);
            printf("%d %g %g %g\\n", status, (double)y[0], (double)y[1], (double)y[2]);
        }
    }
    return 0;
}
""")
    assert make(tmp_path, "all").returncode == 0
    subprocess.run(["cc", "-std=c11", "main.c", "build/libm.a", "-lm", "-o", "main"], cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == [f"0 {3 * run * i} {3 * run} {6 * run}" for run in (1, 2, 3) for i in range(6)]


def test_every_source_that_is_copied_says_its_licence() -> None:
    boards = (path for path in (ROOT / "aot/board").rglob("*.*") if path.suffix in (".c", ".h", ".ld"))
    silent = [
        path
        for path in (*(ROOT / "kernels_c").rglob("*.h"), *boards)
        if not path.read_text(encoding="utf-8").startswith("/* SPDX-License-Identifier: Apache-2.0 */\n")
    ]
    assert silent == []


@pytest.mark.parametrize("several", [False, True])
def test_calls_of_the_readme_are_c(several: bool, tmp_path: Path) -> None:
    """A compiler takes them; the list of files is that of the folder, and says of which models they are."""
    graphs = {"m0": tiny.state().graph, "m1": builtin()["digits_int8"](), "m2": tiny.conv().graph}
    plans = {name: make_plan(graph, GENERIC, Options(weights="lut", decode="start")) for name, graph in graphs.items()}
    hashes = {name: f"{i}" * 64 for i, name in enumerate(plans)}
    if several:
        write_all([(name, plan, hashes[name]) for name, plan in plans.items()], "g", tmp_path)
    else:
        plans = {"m0": plans["m0"]}
        write_project(plans["m0"], "m0", tmp_path, sha256=hashes["m0"])
    told = (tmp_path / "README.md").read_text()
    listed = json.loads((tmp_path / "twinfer.json").read_text())
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {*listed["files"], "twinfer.json"} == files
    assert listed["models" if several else "model_sha256"] == (hashes if several else hashes["m0"])
    assert (listed["weights"], listed["decode"]) == ("lut", "start")
    for model, plan in plans.items():
        (code,) = re.findall(
            rf'^    #include "{model}.h"\n((?:    .*\n|\n)*?(?:.*{model}_run.*\n))', told, re.MULTILINE
        )
        assert (f"{model}_reset(" in code) == (plan.state_bytes > 0)
        includes = [f'#include "{model}.h"', *['#include "g.h"'] * several]
        body = code.replace("{...}", "{0}")
        (tmp_path / "example.c").write_text("\n".join([*includes, "int main(void) {", body, "return status;", "}", ""]))
        subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", "-fsyntax-only", "example.c"], cwd=tmp_path, check=True)


def test_replaces_its_own_folder(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    write_project(tiny.dense(), "old", folder)
    (folder / "build").mkdir()
    (folder / "build" / "x.o").touch()
    write_project(tiny.passing(), "new", folder)
    assert not (folder / "old.c").exists()
    assert (folder / "new.c").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["made"]


@pytest.mark.parametrize("path", ["main.c", "src/main.c", ".hidden", "building.txt", "build"])
def test_refuses_what_it_did_not_write(path: str, tmp_path: Path) -> None:
    for made_before in (False, True):
        folder = tmp_path / str(made_before)
        if made_before:
            write_project(tiny.dense(), "m", folder)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("mine")
        with pytest.raises(InvalidArgumentError, match=re.escape(path)):
            write_project(tiny.dense(), "m", folder)
        assert (folder / path).read_text() == "mine"


def test_refuses_links_that_it_did_not_make(tmp_path: Path) -> None:
    """To a folder, to nothing, to a file: what they lead to is somebody's."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine.c").write_text("mine")
    for name, target in (("to_folder", "there"), ("to_nothing", "nowhere"), ("to_file", "there/mine.c")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "link").symlink_to(tmp_path / target)
        with pytest.raises(InvalidArgumentError, match=r"holds 'link', not made by twinfer"):
            write_project(tiny.dense(), "m", folder)
        assert (folder / "link").is_symlink()
        assert (tmp_path / "there" / "mine.c").read_text() == "mine"


@pytest.mark.parametrize(
    "text", ["", "{", "3", "[]", "null", '{"files": 3}', '{"files": null}', '{"tool": "x"}', "\xff"]
)
def test_a_list_of_files_that_is_none(text: str, tmp_path: Path) -> None:
    """Whatever lies there under the list's name: nothing is known to be ours, so nothing is replaced."""
    (tmp_path / "twinfer.json").write_bytes(text.encode("latin-1"))
    (tmp_path / "m.c").write_text("mine")
    with pytest.raises(InvalidArgumentError, match="not made by twinfer: name another folder"):
        write_project(tiny.dense(), "m", tmp_path)
    assert (tmp_path / "m.c").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"twinfer.json", "m.c"}


def test_refuses_a_file_and_follows_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgumentError, match="not a folder"):
        write_project(tiny.dense(), "m", tmp_path / "file")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidArgumentError, match="not a folder"):
        write_project(tiny.dense(), "m", tmp_path / "link")
    (tmp_path / "elsewhere").mkdir()
    write_project(tiny.dense(), "m", tmp_path / "link")
    assert (tmp_path / "elsewhere" / "m.c").exists()


@pytest.mark.parametrize("field", ["ram_bytes", "flash_bytes"])
def test_what_cannot_fit_is_said_at_once(field: str, tmp_path: Path) -> None:
    """Exact to the byte of the arena, a multiple of 16, and the constants, before anything is written."""
    card = replace(find("cortex-m4"), name="tiny", stack_bytes=100)
    plan = make_plan(tiny.dense().graph, card.target)
    arena, constants = -(-plan.arena_bytes // 16) * 16, emit(plan, "dense").constants.nbytes
    least, message = {
        "ram_bytes": (
            arena + 100,
            f"dense needs {arena} B of arena, tiny has {arena + 99} B of RAM, of them 100 B for",
        ),
        "flash_bytes": (constants + 64, f"dense needs at least {constants} B of flash .*, tiny has {constants + 63} B"),
    }[field]
    with pytest.raises(ToolError, match=message):
        write_project(plan, "dense", tmp_path / "made", card=replace(card, **{field: least - 1}))
    assert [*tmp_path.iterdir()] == []
    check_fits(emit(plan, "dense"), replace(card, **{field: least}))


@pytest.mark.usefixtures("board_tools")
@pytest.mark.parametrize("stack_bytes", [None, 100])
def test_code_that_does_not_fit_is_said_at_once(stack_bytes: int | None, tmp_path: Path) -> None:
    """Exact to the byte of the linked model, whether the stack is given or computed."""
    card = replace(find("cortex-m4"), name="tiny")
    plan = make_plan(tiny.dense().graph, card.target)
    needed = sizes(emit(plan, "dense"), card).flash_bytes
    message = f"dense needs {needed:,} B of flash for code, weights and other constants, tiny has {needed + 63:,} B"
    small = replace(card, flash_bytes=needed + 63)
    with pytest.raises(ToolError, match=message):
        write_project(plan, "dense", tmp_path / "made", card=small, stack_bytes=stack_bytes)
    assert [*tmp_path.iterdir()] == []
    enough = replace(card, flash_bytes=needed + 64)
    write_project(plan, "dense", tmp_path / "made", card=enough, stack_bytes=stack_bytes)


def test_nothing_is_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_project(tiny.dense(), "m", tmp_path / "made")
    before = {p: p.read_text() for p in (tmp_path / "made").rglob("*.*")}
    monkeypatch.setattr(
        project_module.Path, "write_bytes", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full"))
    )
    for folder in ("made", "fresh"):
        with pytest.raises(InvalidArgumentError, match="cannot be written: disk full"):
            write_project(tiny.passing(), "m", tmp_path / folder)
    assert {p: p.read_text() for p in (tmp_path / "made").rglob("*.*")} == before
    assert [p.name for p in tmp_path.iterdir()] == ["made"]
