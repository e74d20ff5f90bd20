"""Where code, constants and memory of models lie, as macros of the user's say: by kind, by model, and of hot layers."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import get_args

import pytest
import tiny
from needs import deep_but, need_tools

from twinfer import kernels_c
from twinfer.aot.build.project import folder_files
from twinfer.aot.build.runner import runner_of
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import Project, emit
from twinfer.aot.print.several import emit_all
from twinfer.bench.models.builtin import builtin
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.options import Mode, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.tools import write_files

#: Layer 1 of digits is hot, and so is a kernel that its layers share in interpreted mode; flow has weights of its own.
CONFIG = """
#define IN(name) __attribute__((section(name)))
#define TW_SECTION_WEIGHTS IN(".own.weights")
#define TW_SECTION_TABLES IN(".own.tables")
#define TW_SECTION_CODE IN(".own.code")
#define TW_SECTION_KERNELS IN(".own.kernels")
#define TW_SECTION_HOT_WEIGHTS IN(".own.hot_weights")
#define TW_SECTION_HOT_TABLES IN(".own.hot_tables")
#define TW_SECTION_HOT_CODE IN(".own.hot_code")
#define TW_SECTION_ARENA IN(".own.arena")
#define TW_SECTION_STATE IN(".own.state")
#define FLOW_SECTION_TABLES IN(".own.flow_tables")
#define DIGITS_HOT_1 1
#define DIGITS_HOT_tw_conv2d_s8 1
#define DIGITS_HOT_tw_conv2d_dsp_s8 1
"""

SECTIONS = ["flow_tables", *(word.lower() for word in re.findall(r"TW_SECTION_(\w+)", CONFIG))]

#: A memory of each board that its linker script leaves free.
FREE = {"cortex-m4": 0x21000000, "cortex-m0plus": 0x21000000, "cortex-m55": 0x60000000}

BUILDS = list(product(FREE, get_args(Mode), (["-Os"], ["-O2", "-flto"])))


def linked(folder: Path, core: str, mode: Mode, words: Sequence[str]) -> tuple[list[Project], Path]:
    """Two models and the self-test of the first, linked with every section in a memory of its own."""
    card = find(core)
    need_tools(card.toolchain.compiler)
    graphs = {"digits": builtin()["digits_int8"](), "flow": tiny.flow().graph}
    plans = {name: make_plan(graph, card.target, Options(mode=mode)) for name, graph in graphs.items()}
    projects = emit_all(plans, "both")
    files = folder_files("both", [(p, random_inputs(p.plan.graph)) for p in projects], card)
    placed = "\n".join(
        f".own.{name} : ALIGN(0x1000) {{ begin_{name} = .; *(.own.{name}) end_{name} = .; }} > OWN" for name in SECTIONS
    )
    script = files["board/link.ld"].replace(
        "MEMORY {", f"MEMORY {{\n    OWN (rwx) : ORIGIN = {FREE[core]:#x}, LENGTH = 1M", 1
    )
    files["board/link.ld"] = script.replace("SECTIONS {", f"SECTIONS {{\n{placed}", 1)
    write_files(folder, {**files, "config.h": CONFIG})
    tests = {f"{p.name}_test.c" for p in projects}
    sources = [path for path in files if path.endswith(".c") and path not in tests]
    flags = [
        *card.flags,
        "-std=c11",
        "-ffp-contract=off",
        "-Wall",
        "-Wextra",
        "-Werror",
        '-DTW_CONFIG="config.h"',
        "-I.",
    ]
    command = [card.toolchain.compiler, *flags, *words, *card.architecture.linking(card.toolchain, "board/")]
    for project in projects:
        last = [f"{project.name}_test.c", "-o", project.name, "-lm"]
        subprocess.run([*command, *sources, *last], cwd=folder, check=True, timeout=1200)
    return list(projects), folder


def symbols(program: Path) -> Iterator[tuple[str, str, int]]:
    """Name, kind (nm's letter) and address of every symbol; clones have their original's name."""
    lines = subprocess.run(["arm-none-eabi-nm", program], capture_output=True, text=True, check=True, timeout=99).stdout
    for address, kind, name in (line.split() for line in lines.splitlines() if len(line.split()) == 3):
        yield name.partition(".")[0], kind.lower(), int(address, 16)


def expected(projects: Sequence[Project], name: str, kind: str) -> str:
    """The section of a symbol of a model; "" for all others."""
    if "_test_" in name or name.endswith(("_sha256", "_test", "_run_static", "_none")):
        return ""
    for project in projects:
        for constant in project.constants.all:
            if constant.symbol == name:
                what = re.sub(r".*_(WEIGHTS|TABLES)\(.*", r"\1", constant.section).lower()
                hot = constant.section.startswith("DIGITS") and constant.section.endswith("(1)")
                return f"hot_{what}" if hot else f"flow_{what}" if what == "tables" and project.name == "flow" else what
    if name in ("flow_static_state", "both_static_arena"):
        return name.rpartition("_")[2]
    own = re.match(r"(digits|flow|both)_", name)
    if kind == "t" and own:
        if name in ("both_arena", "flow_arena", "flow_state", "digits_arena"):
            return ""  # of NAME_static.c
        return "hot_code" if re.match(r"digits_(1_|\d_to_1$|tw_conv2d(_dsp)?_s8$)", name) else "code"
    if kind == "t" and name.startswith("tw_") and any(f" {name}(" in text for text in kernels_c.sources().values()):
        return "kernels"
    if kind in "rd" and own:
        hot = re.match(r"digits_1_\w*(params|members)", name)  # tables of addresses are those of the whole model
        return "hot_tables" if hot else "flow_tables" if own[1] == "flow" else "tables"
    return ""


@pytest.mark.parametrize(
    ("core", "mode", "words"),
    deep_but(BUILDS, BUILDS[1], BUILDS[2]),
    ids=lambda value: "".join(value) if isinstance(value, list) else value,
)
def test_sections(core: str, mode: Mode, words: list[str], tmp_path: Path) -> None:
    """The self-tests of both pass with everything in a section of its own, and with -flto all is there, too."""
    projects, folder = linked(tmp_path, core, mode, words)
    seen = set[str]()
    for project in projects:
        found = [*symbols(folder / project.name)]
        at = {name: address for name, _, address in found}
        for name, kind, address in found:
            where = expected(projects, name, kind)
            if where:
                seen.add(where)
                assert at[f"begin_{where}"] <= address < at[f"end_{where}"], (name, kind, hex(address), where)
        command = [*runner_of(find(core)).command, folder / project.name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert f"{project.name}: ok" in done.stdout + done.stderr, done.stderr
    assert seen >= {"weights", "code", "hot_code", "hot_weights", "arena", "state"}


@pytest.mark.parametrize("options", [Options(), Options(input_in_place=True), Options(memory="rows", input_rows=True)])
def test_cache_lines(options: Options) -> None:
    """Of inputs, outputs and what lives beside them no two share a line, and all blocks of memory are whole lines."""
    for graph in (builtin()["digits_int8"](), tiny.flow().graph):
        if (options.input_rows or options.input_in_place) and len(graph.inputs) > 1:
            continue
        plan = make_plan(graph, find("cortex-m7").target.with_alignment(32), options)
        ends = [t for t in (*plan.graph.inputs, *plan.graph.outputs) if t in plan.places]
        assert {plan.places[t].offset % 32 for t in ends} <= {0}
        for end in ends:
            lines = range(plan.places[end].offset // 32, -(-(plan.places[end].offset + end.nbytes) // 32))
            for other, (region, offset) in plan.places.items():
                lives = plan.lives.get(other), plan.lives.get(end)
                apart = None in lives or lives[0][1] < lives[1][0] or lives[1][1] < lives[0][0]  # type: ignore[index]
                begins = offset // 32 in lines and offset % 32 != 0 and region == plan.places[end].region
                assert apart or not begins, (end.name, other.name)
        header = emit(plan, "m").code["m.h"]
        assert "#define M_ARENA_ALIGN 32\n" in header
        sizes = [int(size) for size in re.findall(r"#define M_(?:ARENA|STATE)_BYTES (\d+)", header)]
        assert sizes
        assert not any(size % 32 for size in sizes)


@pytest.mark.parametrize("nbytes", [0, -1, 24, 8192])
def test_alignment_that_no_memory_has(nbytes: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"power of two up to 4096 bytes, not {nbytes}"):
        find("cortex-m7").target.with_alignment(nbytes)
