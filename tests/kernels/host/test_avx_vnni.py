"""AVX-VNNI: the instructions come out of compilers that are asked for them, and the extension takes the kernel."""

from __future__ import annotations

import platform
import re
import shutil
from pathlib import Path

import pytest
from needs import deep_but

from twinfer import kernels_c
from twinfer.kernels_c import FOLDER
from twinfer.kernels_c.ffi_build import headers, lists, texts
from twinfer.runtime.ops.conv import _bands
from twinfer.runtime.run import isa
from twinfer.runtime.target import HOST
from twinfer.runtime.tools import run_tool

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the instructions are those of x86-64")

WARNINGS = ("-std=c11", "-O3", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")
KERNEL = "tw_conv2d_avx_vnni_s8"


def assembly(tmp_path: Path, compiler: str, *flags: str) -> str:
    """What the kernel becomes."""
    if shutil.which(compiler) is None:
        pytest.fail(f"{compiler} is not installed")
    source, output = tmp_path / "kernel.c", tmp_path / "kernel.s"
    source.write_text(f'#include "conv/conv2d_avx_vnni.h"\nTW_SHARED({KERNEL}, kernel)\n')
    run_tool([compiler, *WARNINGS, *flags, "-I", str(FOLDER), "-S", str(source), "-o", str(output)])
    return output.read_text()


@pytest.mark.parametrize("compiler", deep_but(["gcc", "clang"], "gcc"))
@pytest.mark.parametrize(
    ("flags", "vectors"),
    [
        (("-mavx2", "-mavxvnni"), "%ymm"),
        (("-march=x86-64-v3",), None),
        pytest.param(("-march=x86-64-v4", "-mavx512vnni"), "%zmm", marks=pytest.mark.deep),
        pytest.param((), None, marks=pytest.mark.deep),
    ],
    ids=["avx-vnni", "avx2", "avx512-vnni", "baseline"],
)
def test_compilers_use_the_instruction(
    compiler: str, flags: tuple[str, ...], vectors: str | None, tmp_path: Path
) -> None:
    text = assembly(tmp_path, compiler, *flags)
    sums = [line for line in text.splitlines() if "vpdpbusd" in line]
    assert bool(sums) == (vectors is not None)
    assert all(vectors in line for line in sums if vectors), "vectors as wide as the flags allow"


def test_the_set_is_compiled_beside_the_levels() -> None:
    """Its list of names has the order of all kernels, and its own marked."""
    files = lists(texts(headers()))
    everything, own = files["names.inc"].splitlines(), files["names_avx_vnni.inc"].splitlines()
    assert [line.split("(")[1] for line in own] == [line.split("(")[1] for line in everything]
    assert [line for line in own if line.startswith("TW_ENTRY")] == [f"TW_ENTRY({KERNEL})"]
    assert files["headers_avx_vnni.inc"] == '#include "conv/conv2d_avx_vnni.h"\n'


def has_it() -> bool:
    return " avx_vnni " in Path("/proc/cpuinfo").read_text() and kernels_c.lib.tw_level() >= 1


def test_features_follow_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINFER_ISA", "v3")
    assert isa.this_computer().features == {"simd", "avx2", *({"avx_vnni"} if has_it() else set())}
    monkeypatch.setenv("TWINFER_ISA", "base")
    assert isa.this_computer().features == HOST.features


@pytest.mark.skipif(not has_it(), reason="this processor has no AVX-VNNI")
def test_a_processor_with_it_runs_it() -> None:
    """At the level of AVX2 the extension takes the function that was compiled for the set."""
    symbols = {}
    for line in run_tool(["nm", "--defined-only", kernels_c._ffi.__file__]).splitlines():
        address, _, name = line.split()
        symbols[name] = int(address, 16)
    base, own = (int(kernels_c.ffi.cast("intptr_t", kernels_c.kernel(KERNEL, level))) for level in (0, 1))
    assert own - base == symbols[f"{KERNEL}_avx_vnni"] - symbols[f"{KERNEL}_base"]


@pytest.mark.parametrize("lanes", sorted((FOLDER / "isa/wide").glob("lanes_*.h")), ids=lambda path: path.stem)
def test_places_are_padded_to_whole_tiles(lanes: Path) -> None:
    """A tile reads the places of all its pixels, whatever the level."""
    pixels = re.findall(r"#define TW_CONV_PIXELS (\d+)$", lanes.read_text(), re.MULTILINE)
    assert [_bands.PLACES % int(count) for count in pixels] == [0]
