"""The self-tests of emitted C on machines unlike this one: the highest byte of a word first; 32 bits."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from itertools import cycle, product
from pathlib import Path
from typing import get_args

import pytest
import tiny
from cases import cases_of, graph_of, values_of, with_common_instances, write_self_tests
from needs import deep_but, need_tools, sampled
from row_nets import network

from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import Project, emit
from twinfer.bench.models.builtin import builtin
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Array
from twinfer.runtime.options import Coding, Mode, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.registry import operators
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.target import DSP, GENERIC, HOST
from twinfer.runtime.tools import run_tool, write_files

#: Compiler and its flags, and what runs the program.
MACHINES = {
    "s390x": ("s390x-linux-gnu-gcc -static -fexcess-precision=fast", ["qemu-s390x"]),
    "i386": ("gcc -m32 -msse2 -mfpmath=sse", []),
}

WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")


def need(command: list[str], emulator: list[str], folder: Path) -> None:
    """Skips where the compiler, its C library or the emulator is not installed; fails in CI."""
    (folder / "none.c").write_text("#include <math.h>\nint main(void) { return 0; }\n")
    try:
        run_tool([*command, "none.c", "-o", "none", "-lm"], folder)
        run_tool([*emulator, str(folder / "none")])
    except ToolError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error).splitlines()[0])


def programs() -> Iterator[tuple[Project, list[Array]]]:
    """A sample of the operators' cases, and a network, with weights as they are and in every coding, in both modes."""
    cases = [case for op in operators() for case in cases_of(op).values()]
    graphs = [(graph_of(case.node), case) for case in sampled(cases, 120, "machines")]
    values = [(graph, values_of(case, graph)) for graph, case in graphs]
    digits = builtin()["digits_int8"]()
    values += [(digits, random_inputs(digits))] * len(get_args(Coding))
    ways = cycle(product(get_args(Coding), get_args(Mode)))
    for i, ((graph, inputs), (weights, mode)) in enumerate(zip(values, ways, strict=False)):
        yield emit(make_plan(graph, GENERIC, Options(mode=mode, weights=weights)), f"m{i}"), inputs


@pytest.mark.parametrize("machine", MACHINES)
def test_the_same_bits(machine: str, tmp_path: Path) -> None:
    if machine == "i386" and platform.machine() != "x86_64":
        pytest.skip("only x86-64 runs programs of i386")
    compiler, emulator = MACHINES[machine]
    command = [*compiler.split(), "-std=c11", "-O1", "-ffp-contract=off", *WARNINGS]
    need(command, emulator, tmp_path)
    made = list(programs())
    projects = with_common_instances([project for project, _ in made])
    write_self_tests(tmp_path, [(project, inputs) for project, (_, inputs) in zip(projects, made, strict=True)])
    run_tool([*command, "all.c", "-o", "all", "-lm"], tmp_path)
    done = subprocess.run([*emulator, tmp_path / "all"], capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert done.stdout.count(": ok") == len(made)


def test_packed_words_are_refused_where_the_highest_byte_is_first(tmp_path: Path) -> None:
    """Kernels for SMLAD read words, those of a computer read as words what decoders give byte by byte, and decoded
    constants of several types lie as bytes."""
    compiler, emulator = MACHINES["s390x"]
    command = [*compiler.split(), "-std=c11", "-fsyntax-only"]
    need([*compiler.split()], emulator, tmp_path)
    digits, *_, mixed = builtin()["digits_int8"](), *cases_of("CUSTOM:TFLM_DECODE").values()
    assert {y.type for y in mixed.node.outputs} == {"INT8", "INT32"}
    plans = {
        "dsp": make_plan(digits, DSP),
        "coded": make_plan(digits, HOST, Options(weights="lut")),
        "mixed": make_plan(graph_of(mixed.node), GENERIC),
        "host": make_plan(digits, HOST),
    }
    for name, plan in plans.items():
        project = emit(plan, name)
        write_files(tmp_path / name, project.files)
        if name == "host":
            run_tool([*command, "host.c"], tmp_path / name)
        else:
            with pytest.raises(ToolError, match="compile with --target generic"):
                run_tool([*command, f"{name}.c"], tmp_path / name)


#: Compilers whose floats have other bits.
OTHERWISE = ("gcc -m32 -mfpmath=387", "gcc -m32 -Ofast -msse2 -mfpmath=sse", "s390x-linux-gnu-gcc -static")


@pytest.mark.parametrize("compiler", deep_but(OTHERWISE, OTHERWISE[0]))
def test_floats_that_are_computed_otherwise(compiler: str, tmp_path: Path) -> None:
    """A model of integers has its bits there, one with floats is refused in words."""
    emulator = ["qemu-s390x"] if "s390x" in compiler else []
    command = [*compiler.split(), "-std=c11", "-ffp-contract=off", *WARNINGS]
    need(command, emulator, tmp_path)
    digits = builtin()["digits_int8"]()
    write_self_tests(tmp_path, [(emit(make_plan(digits, GENERIC), "m"), random_inputs(digits))])
    run_tool([*command, "all.c", "-o", "all", "-lm"], tmp_path)
    assert ": ok" in run_tool([*emulator, str(tmp_path / "all")])
    write_files(tmp_path / "floats", emit(make_plan(tiny.conv().graph, GENERIC), "f").files)
    refusal = "-ffast-math change" if "-Ofast" in compiler else "floats are computed wider than float"
    with pytest.raises(ToolError, match=refusal):
        run_tool([*command, "-fsyntax-only", "f.c"], tmp_path / "floats")


@pytest.mark.parametrize("core", ["", "cortex-m4", "cortex-m55"])
def test_debug_builds_warn_of_nothing(core: str, tmp_path: Path) -> None:
    """gcc -Og folds less than it inlines: layers within chains of rows, and each operator whose kernel has a switch."""
    card = find(core) if core else None
    compiler = [card.compiler, *card.flags] if card else ["gcc"]
    need_tools(compiler[0])
    nodes = [
        next(iter(cases_of(op).values())).node for op in ("PAD", "PADV2", "SPACE_TO_BATCH_ND", "MIRROR_PAD", "CAST")
    ]
    graphs = [*(graph_of(node) for node in nodes), *(network(seed) for seed in range(3))]
    parts = []
    for i, graph in enumerate(graphs):
        plan = make_plan(graph, card.target if card else GENERIC, Options(memory="rows"))
        write_files(tmp_path, emit(plan, f"m{i}").files)
        parts += [f'#include "m{i}.c"', f'#include "m{i}_data.c"']
    (tmp_path / "m.c").write_text("\n".join(parts) + "\n")
    run_tool([*compiler, "-Og", "-std=c11", *WARNINGS, "-c", "m.c"], tmp_path)
