"""Every kernel compiles for every core with flags of users beside ours: debug builds, frame pointers, clang."""

from __future__ import annotations

from pathlib import Path

import pytest
from needs import sampled

from twinfer.aot.build.targets import find
from twinfer.kernels_c import FOLDER
from twinfer.kernels_c.ffi_build import headers, kernel_index
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
    assert source.with_suffix(".o").stat().st_size > 10_000


@pytest.mark.parametrize(("core", "flags"), sampled([(core, flags) for core in CORES for flags in FLAGS], 3, "flags"))
def test_gcc(core: str, flags: str, source: Path) -> None:
    compile_for([COMPILER, *find(core).flags, *flags.split()], source)


@pytest.mark.parametrize("core", TRIPLES)
def test_clang(core: str, source: Path) -> None:
    """With newlib's headers from the folder of gcc."""
    newlib = Path(run_tool([COMPILER, "-print-sysroot"]).strip() or "/usr/lib/arm-none-eabi") / "include"
    float_abi = "" if core == "cortex-m0" else "hf"
    target = [f"--target={TRIPLES[core]}-none-eabi{float_abi}", f"-mcpu={core}", "-isystem", str(newlib)]
    compile_for(["clang", *target, "-O2"], source)


WIDE, NARROW = "floats are computed wider than float", "bytes of 8 bits and int of 32"


@pytest.mark.parametrize(
    ("machine", "refusal"),
    [
        ("avr", NARROW),
        ("msp430", NARROW),
        ("i386 -mno-sse", WIDE),
        ("i386 -msse2", ""),
        ("riscv32", ""),
        ("powerpc", ""),
    ],
)
def test_machines_that_kernels_are_not_for(machine: str, refusal: str, tmp_path: Path) -> None:
    """What every kernel includes refuses a machine of other integers, or whose floats are computed with more bits."""
    (tmp_path / "string.h").write_text("")
    (tmp_path / "one.c").write_text('#include "core/tw.h"\n')
    triple, *flags = machine.split()
    command = ["clang", f"--target={triple}-none-elf", *flags, "-std=c11", "-ffreestanding", "-fsyntax-only"]
    command += ["-isystem", str(tmp_path), "-I", str(FOLDER), str(tmp_path / "one.c")]
    if refusal:
        with pytest.raises(ToolError, match=refusal):
            run_tool(command)
    else:
        run_tool(command)
