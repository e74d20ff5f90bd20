"""Every kernel compiles for every core with flags of users beside ours: debug builds, frame pointers, clang."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from needs import deep_but, sampled

from twinfer.aot.build.targets import find
from twinfer.command_line.main import main
from twinfer.kernels_c import FOLDER
from twinfer.kernels_c.ffi_build import headers, kernel_index
from twinfer.runtime import tools
from twinfer.runtime.errors import ToolError
from twinfer.runtime.tools import run_tool

COMPILER = find("cortex-m4").compiler

pytestmark = pytest.mark.usefixtures("board_tools")

WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")
CORES = ("cortex-m0", "cortex-m4", "cortex-m55")
FLAGS = ("-O0", "-Og", "-O1", "-O2 -fno-omit-frame-pointer -DTW_NO_ASM")

#: clang's names of the cores' architectures.
TRIPLES = {"cortex-m0": "thumbv6m", "cortex-m4": "thumbv7em", "cortex-m55": "thumbv8.1m.main"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file with every kernel's shared instance."""
    lines = [f'#include "{path.relative_to(FOLDER).as_posix()}"' for path in headers()]
    lines += [f"TW_SHARED({name}, {name}_shared)" for name in kernel_index()]
    (tmp_path / "kernels.c").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "kernels.c"


def compile_for(command: list[str], source: Path) -> None:
    run_tool([*command, *WARNINGS, "-I", str(FOLDER), "-c", str(source), "-o", str(source.with_suffix(".o"))])
    assert "-fsyntax-only" in command or source.with_suffix(".o").stat().st_size > 10_000


@pytest.mark.deep
@pytest.mark.parametrize(("core", "flags"), sampled([(core, flags) for core in CORES for flags in FLAGS], 3, "flags"))
def test_gcc(core: str, flags: str, source: Path) -> None:
    compile_for([COMPILER, *find(core).flags, *flags.split()], source)


@pytest.mark.parametrize("how", deep_but(["-O2", "-fsyntax-only"], "-fsyntax-only"))
@pytest.mark.parametrize("core", TRIPLES)
def test_clang(core: str, how: str, source: Path) -> None:
    """With newlib's headers from the folder of gcc."""
    newlib = Path(run_tool([COMPILER, "-print-sysroot"]).strip() or "/usr/lib/arm-none-eabi") / "include"
    float_abi = "" if core == "cortex-m0" else "hf"
    target = [f"--target={TRIPLES[core]}-none-eabi{float_abi}", f"-mcpu={core}", "-isystem", str(newlib)]
    compile_for(["clang", *target, how], source)


def test_cpp(source: Path) -> None:
    """This computer's compiler takes every kernel as C++."""
    command = ["g++", "-x", "c++", "-std=c++20", "-march=native", *WARNINGS[1:], "-fsyntax-only"]
    run_tool([*command, "-I", str(FOLDER), str(source)])


#: Compilers that cannot, as scripts; what is told of each (of the first: that it is missing).
BROKEN = {
    "": "arm-none-eabi-gcc is not installed: apt-get install gcc-arm-none-eabi",
    "echo 'x.c:1: error: cannot make this' >&2; exit 3": "error: cannot make this",
    "printf 'na\\377ve \\033[31m' >&2; exit 1": "na",
    "kill -9 $$": "arm-none-eabi-gcc",
}

#: Commands that build for a board; OUT is a folder.
BUILDING = (
    "bench digits_int8 --target cortex-m4 --json OUT/x.json", "verify digits_int8 --target cortex-m4",
    "explain digits_int8 --target cortex-m4 --json OUT/x.json --html OUT/x.html",
    "report digits_int8 --target cortex-m4 -o OUT/x.html --json OUT/x.json",
    "diff digits_int8 kws_int8 --target cortex-m4 -o OUT/x.html",
    "run digits_int8 --target cortex-m4 --output OUT/y.npy",
    "compile digits_int8 --target cortex-m4 -o OUT/c", "compile digits_int8 kws_int8 --target cortex-m4 -o OUT/c",
)  # fmt: skip


@pytest.fixture
def broken(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The script is the boards' compiler, and nothing was built before."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    bin = tmp_path / "bin"
    bin.mkdir()
    if request.param:
        (bin / COMPILER).write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec echo fake 1\n{request.param}\n')
        (bin / COMPILER).chmod(0o755)
    else:
        real = shutil.which
        monkeypatch.setattr(tools.shutil, "which", lambda name, *how: real(name, *how) if name != COMPILER else None)
    monkeypatch.setenv("PATH", f"{bin}:{os.environ['PATH']}")
    tools.compiler_version.cache_clear()
    yield BROKEN[request.param]
    tools.compiler_version.cache_clear()


@pytest.mark.parametrize(
    ("line", "broken"),
    deep_but(product(BUILDING, BROKEN), *((line, "") for line in BUILDING), *((BUILDING[-2], how) for how in BROKEN)),
    indirect=["broken"],
)
def test_a_compiler_that_cannot(
    line: str, broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said in its own words, with exit status 2, and nothing is written; what needs no program is done."""
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.chdir(out)
    before = dict(os.environ)
    compiles = line.startswith("compile")
    assert main(line.replace("OUT", str(out)).split()) == (0 if compiles else 2)
    said = "".join(capsys.readouterr())
    assert broken in said
    assert "\x1b" not in said
    assert "Traceback" not in said
    assert (Path.cwd(), dict(os.environ)) == (out, before)
    names = {path.name for path in out.iterdir()}
    if compiles:
        models = [word for word in line.split() if word.endswith("int8")]
        assert said.count("warning: the stack is not measured") == len(models)
        for name in models:
            assert f"{name.upper()}_STACK_BYTES is left out" in said
            assert f"{name.upper()}_STACK_BYTES" not in (out / "c" / f"{name}.h").read_text()
    elif line.startswith("bench") and "not installed" not in broken:
        rows = json.loads((out / "x.json").read_text())["rows"]
        assert all(broken in row["error"] and row["instructions"] is None for row in rows)
    else:
        assert names == set()


WIDE, FAST, NARROW = "floats are computed wider than float", "-ffast-math change", "bytes of 8 bits and int of 32"


@pytest.mark.parametrize(
    ("machine", "floats", "refusal"),
    [
        ("avr", False, NARROW),
        ("msp430", False, NARROW),
        ("i386 -mno-sse", True, WIDE),
        ("i386 -mno-sse", False, ""),
        ("i386 -msse2", True, ""),
        ("i386 -msse2 -ffast-math", True, FAST),
        ("i386 -msse2 -ffast-math", False, ""),
        ("i386 -msse2 -ffinite-math-only", True, FAST),
        ("riscv32", True, ""),
        ("powerpc", True, ""),
    ],
)
def test_machines_that_kernels_are_not_for(machine: str, floats: bool, refusal: str, tmp_path: Path) -> None:
    """A machine of other integers is refused; one that computes floats otherwise only for models with floats."""
    (tmp_path / "string.h").write_text("")
    (tmp_path / "one.c").write_text('#include "core/tw.h"\n' + "TW_NEED_FLOATS;\n" * floats)
    triple, *flags = machine.split()
    command = ["clang", f"--target={triple}-none-elf", *flags, "-std=c11", "-ffreestanding", "-fsyntax-only"]
    command += ["-isystem", str(tmp_path), "-I", str(FOLDER), str(tmp_path / "one.c")]
    if refusal:
        with pytest.raises(ToolError, match=refusal):
            run_tool(command)
    else:
        run_tool(command)
