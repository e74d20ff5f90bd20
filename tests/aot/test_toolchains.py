"""Every kernel compiles for every core with flags of users beside ours: debug builds, frame pointers, clang."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinfer.aot.build.targets import find
from twinfer.kernels_c import FOLDER
from twinfer.kernels_c.ffi_build import headers, kernel_index
from twinfer.runtime.tools import run_tool

COMPILER = find("cortex-m4").compiler

pytestmark = pytest.mark.usefixtures("board_tools")

WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")
CORES = ("cortex-m0", "cortex-m4", "cortex-m55")
FLAGS = ("-O0", "-O2 -fno-omit-frame-pointer -DTW_NO_ASM")

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


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("core", CORES)
def test_gcc(core: str, flags: str, source: Path) -> None:
    compile_for([COMPILER, *find(core).flags, *flags.split()], source)


@pytest.mark.parametrize("core", TRIPLES)
def test_clang(core: str, source: Path) -> None:
    """With newlib's headers from the folder of gcc."""
    newlib = Path(run_tool([COMPILER, "-print-sysroot"]).strip() or "/usr/lib/arm-none-eabi") / "include"
    float_abi = "" if core == "cortex-m0" else "hf"
    target = [f"--target={TRIPLES[core]}-none-eabi{float_abi}", f"-mcpu={core}", "-isystem", str(newlib)]
    compile_for(["clang", *target, "-O2"], source)
