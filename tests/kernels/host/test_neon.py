"""NEON on AArch64: compilers use the instructions that they are asked for, and the extension takes what the CPU has.

The bits are those of all other kernels: ``tests/aot/test_qemu.py`` and ``test_fast_paths.py`` run the cards of AArch64.
"""

from __future__ import annotations

import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from cases import graph_of, measure, numpy_outputs, with_common_instances
from needs import need_tools

from twinfer.aot.build.firmware import build
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.bench.models.builtin import builtin
from twinfer.kernels_c import FOLDER
from twinfer.kernels_c.ffi_build import FLAGS, LEVEL_FILES, SET_FILES, headers, lists, texts
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, along, tensor
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.target import FEATURES, NEON_I8MM
from twinfer.runtime.tools import run_tool

pytestmark = pytest.mark.deep

CARDS = ("aarch64", "aarch64-dotprod", "aarch64-i8mm")
DENSE = ("dense/fully_connected_wide.h", "tw_fully_connected_wide_s8")
EIGHTS = ("conv/conv2d_wide.h", "tw_conv2d_i8mm_s8")
WARNINGS = ("-std=c11", "-O3", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")

#: What the extension tells of itself.
TELLS = """
#include <stdio.h>
#include "run/host.h"
#include "headers.inc"
int main(int count, char **names) {
    const int level = tw_level();
    tw_fn *const of[] = {tw_table_base[0], tw_table_dotprod[0], tw_table_i8mm[0]};
    printf("%d %s", tw_kernel(level, 0) == of[level], tw_levels[level]);
    for (int i = 1; i < count; ++i)
        if (tw_has(level, names[i])) printf(" %s", names[i]);
    return 0;
}
"""


@pytest.fixture(autouse=True)
def tools(kept_builds: None) -> None:
    need_tools(find("aarch64").compiler, find("aarch64").emulator)


def assembly(folder: Path, compiler: tuple[str, ...], arch: str, header: str, kernel: str) -> str:
    """What a kernel over lanes becomes."""
    if shutil.which(compiler[0]) is None:
        pytest.fail(f"{compiler[0]} is not installed")
    source, output = folder / "kernel.c", folder / "kernel.s"
    source.write_text(f'#include "{header}"\nTW_SHARED({kernel}, kernel)\n')
    run_tool([*compiler, *WARNINGS, arch, "-I", str(FOLDER), "-S", str(source), "-o", str(output)])
    return output.read_text()


@pytest.mark.parametrize(
    "compiler",
    [("aarch64-linux-gnu-gcc",), ("clang", "--target=aarch64-linux-gnu", "-isystem", "/usr/aarch64-linux-gnu/include")],
    ids=["gcc", "clang"],
)
def test_compilers_use_the_instructions(compiler: tuple[str, ...], tmp_path: Path) -> None:
    """SDOT where that is all, USDOT alone where there is that, neither on ARMv8.0; USMMLA for pairs of pixels."""
    dots, eights = [], []
    for card in CARDS:
        text = assembly(tmp_path, compiler, find(card).flags[0], *DENSE)
        dots.append(tuple(f"\t{name}\t" in text for name in ("sdot", "usdot", "sqrdmulh")))
        eights.append("\tusmmla\t" in assembly(tmp_path, compiler, find(card).flags[0], *EIGHTS))
    assert dots == [(False, False, True), (True, False, True), (False, True, True)]
    assert eights == [False, False, True]


def test_the_extension_takes_what_the_cpu_has(tmp_path: Path) -> None:
    """All levels compile for AArch64; each CPU of QEMU's takes the best of its own, and tells its features."""
    for name, text in lists(texts(headers())).items():
        (tmp_path / name).write_text(text)
    (tmp_path / "tells.c").write_text(TELLS)
    quick = [flag for flag in FLAGS if flag != "-O3"]
    command = [find("aarch64").compiler, *quick, "-Werror", "-Wno-unused-function", "-D_GNU_SOURCE", "-static"]
    sources = [str(tmp_path / "tells.c"), *map(str, (*LEVEL_FILES, *SET_FILES))]
    run_tool([*command, "-I", str(FOLDER), "-I", str(tmp_path), *sources, "-o", str(tmp_path / "tells"), "-lm"])
    told = {}
    for card in map(find, CARDS):
        command = [card.emulator, "-cpu", card.machine, str(tmp_path / "tells"), *FEATURES]
        own, level, *features = run_tool(command).split()
        assert own == "1"
        told[level] = {*features}
        assert told[level] == card.target.features - {"simd"}
    assert list(told) == ["base", "dotprod", "i8mm"]


def convolution(
    rng: np.random.Generator, pixels: int, channels: int, window: int, depth: int, type: str = "INT8"
) -> tuple[Node, Array]:
    """A row of so many outputs, and an input; extreme values are likely."""
    bits = int(type.removeprefix("INT"))
    most, zeros = (1 << (bits - 1)) - 1, rng.integers(-128, 128, 2).tolist() if bits == 8 else [0, 0]
    w = rng.choice([-127, -1, 2, 127, *rng.integers(-127, 128, 4)], (channels, 1, window, depth))
    scales = (0.01 * 2.0 ** rng.uniform(-2, 2, channels)).tolist()
    x = tensor((1, 1, pixels + window - 1, depth), type, 0.05, zeros[0], name="x")
    weights = along(tensor(w.shape, "INT8", scales, data=w, name="w"), 0)
    bias_type = "INT32" if bits == 8 else "INT64"
    bias = tensor((channels,), bias_type, 1.0, data=rng.integers(-10_000, 10_000, channels), name="b")
    y = tensor((1, 1, pixels, channels), type, 0.5 * (window * depth) ** 0.5, zeros[1], name="y")
    options = {"padding": "VALID", "stride_h": 1, "stride_w": 1, "fused_activation_function": "NONE"}
    value = rng.choice([-most - 1, most, *rng.integers(-most, most, 6)], x.shape).astype(x.dtype)
    return Node("CONV_2D", (x, weights, bias), (y,), options), value


@pytest.mark.parametrize("type", ["INT8", "INT16"])
def test_at_the_edges_of_tiles(type: str) -> None:
    """Plans for i8mm give numpy's bits on all CPUs: those without it run plain C.

    Tiles are 4 pixels, the last one 2 or 4, times 16 channels; steps are 8 bytes, or 4 of int16.
    """
    rng = np.random.default_rng(20261125)
    projects, values, wanted, kernels = [], [], [], set()
    for pixels, channels, (window, depth) in product(
        (1, 2, 3, 4, 5, 6, 7, 9), (8, 9, 16, 17, 33), ((1, 5), (1, 8), (3, 3), (1, 16), (3, 7))
    ):
        if channels == 8 and type == "INT8":
            continue  # of so few, two pixels share a vector, which i8mm declines
        node, value = convolution(rng, pixels, channels, window, depth, type)
        plan = make_plan(graph_of(node), NEON_I8MM)
        kernels |= {step.call.kernel for step in plan.steps}
        projects.append(emit(plan.printed(mode="interpreted"), f"n{len(projects)}"))
        values.append(value)
        wanted += numpy_outputs(Case(node), plan.graph, [value])
    words = {"tw_conv2d_wide_s16", "tw_fully_connected_wide_s16"}
    assert kernels == (words if type == "INT16" else {"tw_conv2d_i8mm_s8"})
    for card in map(find, CARDS):
        jobs = [Job([value], i) for i, value in enumerate(values)]
        results = run_jobs(build(with_common_instances(projects), card), jobs, count=False)
        for project, result, want in zip(projects, results, wanted, strict=True):
            (got,) = result.outputs
            np.testing.assert_array_equal(got, want, err_msg=f"{card.name}: {project.plan.graph.nodes[0]}")


def test_each_set_saves_instructions() -> None:
    """Each takes fewer than the one before, over all of kws, whose depthwise layers have no products of eights."""
    graph = builtin()["kws_int8"]()
    inputs = random_inputs(graph)
    counts = [measure(emit(make_plan(graph, find(card).target), "kws"), find(card), inputs) for card in CARDS]
    base, dotprod, i8mm = (count.instructions for count in counts)
    assert i8mm < 0.9 * dotprod
    assert dotprod < 0.6 * base
