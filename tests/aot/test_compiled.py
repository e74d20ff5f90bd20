"""Operators as emitted C: the interpreter's bits, over special floats (tests/tools/special.py), too; clean under ASan
and UBSan; as C++. Eight programs have a case that calls each kernel; deep tests take every case."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import special
from cases import (
    ALLOWED_SYMBOLS,
    SEED,
    WARNINGS,
    Planned,
    assert_sanitized,
    by_kernels,
    interpreted,
    outputs_of,
    planned,
)
from needs import deep_but, need_tools

from twinfer.aot.build.compiled import CompiledModel
from twinfer.aot.build.host import FLAGS, CompiledSession, compile_plans, entries, flags_at
from twinfer.aot.build.library import library_sources
from twinfer.aot.print.emit import emit
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.options import Mode
from twinfer.runtime.plan.choice import share_all
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.registry import operators
from twinfer.runtime.run import isa
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import AVX_VNNI, DSP, GENERIC, HOST, MVE, TILES, Target
from twinfer.runtime.tools import run_tool, write_files

#: So many programs have all operators between them.
UNITS = 8

#: In how many parts every case of an operator is tried, if it has very many: all of CONV_2D take ten minutes.
PARTS = {"CONV_2D": 5, "DEPTHWISE_CONV_2D": 2}

#: Of so many cases clang compiles one in the deep test; gcc compiles all, as users' default.
SAMPLE = 3

#: In which mode sanitizers see a target's code. Interpreted kernels read their params at run time, so that the compiler
#: decides none of their steps.
MODES: dict[Target, Mode] = {
    HOST: "interpreted", AVX_VNNI: "interpreted", GENERIC: "compiled", DSP: "compiled", MVE: "compiled",
    TILES: "compiled",
}  # fmt: skip


pytestmark = pytest.mark.usefixtures("kept_builds")


@pytest.fixture(scope="module", params=range(UNITS))
def unit(request: pytest.FixtureRequest) -> list[tuple[Planned, Planned]]:
    return by_kernels(list(operators())[request.param :: UNITS], MODES)


def taken_from_outside(engine: CompiledSession) -> set[str]:
    """The functions that the engine's library needs from others, but for the C start-up code's."""
    listed = run_tool(["nm", "--dynamic", "--undefined-only", engine.library._name])
    return {line.split()[-1].split("@")[0] for line in listed.splitlines() if line.split()[-2] == "U"}


def assert_interpreted(cases: Sequence[Planned], compiler: str, flags: Sequence[str] = FLAGS) -> None:
    """A library of all cases gives the interpreter's bits, for special floats, too."""
    need_tools(compiler)
    engines = compile_plans({t.name: t.plan for t in cases}, compiler=compiler, flags=(*flags, *WARNINGS))
    assert taken_from_outside(engines[cases[0].name]) <= ALLOWED_SYMBOLS
    wrong = []
    for name, graph, values, _ in cases:
        want = interpreted(graph, values, HOST, isa.level())
        got = outputs_of(engines[name], values)
        if [g.tobytes() for g in got] != [w.tobytes() for w in want]:
            wrong.append(name)
        if not any(map(special.is_float, graph.inputs)):
            continue
        interpreter = Session(make_plan(graph, HOST), isa.level())
        for sample, odd in special.samples(values, graph):
            pairs = zip(outputs_of(engines[name], odd), outputs_of(interpreter, odd), strict=True)
            wrong += [f"{name} ({sample})" for g, w in pairs if special.differing(g, w).any()]
    assert not wrong, f"compiled by {compiler} and interpreted differ: {', '.join(wrong)}"


def test_compiled_is_interpreted(unit: list[tuple[Planned, Planned]]) -> None:
    assert_interpreted([first for first, _ in unit], "gcc", flags_at("-O1"))  # deep tests at -O3, as users do


@pytest.mark.deep
def test_cpp_takes_it(unit: list[tuple[Planned, Planned]], tmp_path: Path) -> None:
    need_tools("g++")
    modes: dict[Target, Mode] = {**MODES, HOST: "compiled", GENERIC: "interpreted", MVE: "interpreted"}
    projects = [emit(t.plan.printed(mode=modes[t.plan.target]), t.name) for t, _ in unit]
    write_files(tmp_path, library_sources(projects, entries))
    run_tool(["g++", "-x", "c++", "-std=c++20", "-fsyntax-only", "-march=native", *WARNINGS, "library.c"], tmp_path)


@pytest.mark.parametrize("unit", deep_but(range(UNITS), 0), indirect=True)
def test_no_fault_under_sanitizers(unit: list[tuple[Planned, Planned]], tmp_path: Path) -> None:
    assert_clean([last for _, last in unit], tmp_path)


def assert_clean(cases: Sequence[Planned], folder: Path) -> None:
    """The self-tests of all cases in one program, under sanitizers."""
    projects = [emit(t.plan.printed(mode=MODES[t.plan.target]), t.name, policy=share_all) for t in cases]
    assert_sanitized(folder, list(zip(projects, (t.values for t in cases), strict=True)))


@pytest.mark.deep
@pytest.mark.parametrize(("op", "part"), [(op, part) for op in operators() for part in range(PARTS.get(op, 1))])
def test_every_case(op: str, part: int, tmp_path: Path) -> None:
    cases = list(planned(op, MODES))[part :: PARTS.get(op, 1)]
    assert_interpreted(cases, "gcc")
    assert_clean(cases, tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("op", operators())
def test_clang(op: str) -> None:
    assert_interpreted(list(planned(op, MODES, SAMPLE)), "clang")


@pytest.mark.corpus("app", "op", "derived", sample=12)
@pytest.mark.filterwarnings("ignore::twinfer.runtime.errors.ModelWarning")
def test_corpus(corpus_model: Any) -> None:
    """A sample of whole real models; all with ``--all-models``."""
    twins = [Interpreter(model_path=corpus_model.path), CompiledModel(model_path=corpus_model.path)]
    try:
        twins[0].allocate_tensors()
    except TwinferError:
        pytest.skip("the interpreter does not run it either")
    values = random_inputs(twins[0].plan.graph, SEED)
    outputs = []
    for twin in twins:
        twin.allocate_tensors()
        for details, value in zip(twin.get_input_details(), values, strict=True):
            twin.set_tensor(details["index"], value)
        twin.invoke()
        outputs.append([twin.get_tensor(details["index"]).tobytes() for details in twin.get_output_details()])
    assert outputs[0] == outputs[1]
