"""Every case of every operator as emitted C: the interpreter's bits under gcc, some under clang, over special floats
(tests/tools/special.py), too; clean under ASan and UBSan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import special
from cases import (
    ALLOWED_SYMBOLS,
    SEED,
    assert_sanitized,
    cases_of,
    distinct_plans,
    graph_of,
    interpreted,
    outputs_of,
    values_of,
    with_common_instances,
)
from needs import ROOT, sampled

from twinfer.aot.build.compiled import CompiledModel
from twinfer.aot.build.host import FLAGS, CompiledSession, compile_plans, entries
from twinfer.aot.build.library import library_sources
from twinfer.aot.print.choice import share_all
from twinfer.aot.print.emit import emit
from twinfer.runtime.errors import ToolError, TwinferError
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import Mode
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.registry import operators
from twinfer.runtime.run import isa
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import AVX_VNNI, DSP, GENERIC, HOST, MVE, Target
from twinfer.runtime.tools import find_compiler, run_tool, write_files

#: Of so many cases clang compiles one; gcc compiles all, as users' default.
SAMPLE = 3

WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps libraries in build/, by content, so that unchanged operators are not built twice."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(ROOT / "build" / "cache"))


def models(op: str, *targets: Target, every: int = 1) -> Iterator[tuple[str, Graph, list[Any], Plan]]:
    """Name, graph, input values and plan of the operator's cases, for each target whose plan is another."""
    for name, case in sampled(cases_of(op).items(), every, op):
        graph = graph_of(case.node)
        for target, plan in distinct_plans(graph, targets):
            yield f"{target.name}_{name}".replace("-", "_"), graph, values_of(case, graph), plan


def need(compiler: str) -> None:
    try:
        find_compiler(compiler)
    except ToolError as error:
        pytest.skip(str(error))


def taken_from_outside(engine: CompiledSession) -> set[str]:
    """The functions that the engine's library needs from others, but for the C start-up code's."""
    listed = run_tool(["nm", "--dynamic", "--undefined-only", engine.library._name])
    return {line.split()[-1].split("@")[0] for line in listed.splitlines() if line.split()[-2] == "U"}


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("op", operators())
def test_compiled_is_interpreted(op: str, compiler: str) -> None:
    need(compiler)
    cases = list(models(op, HOST, AVX_VNNI, DSP, MVE, every=1 if compiler == "gcc" else SAMPLE))
    plans = {name: plan for name, _, _, plan in cases}
    engines = compile_plans(plans, compiler=compiler, flags=(*FLAGS, *WARNINGS))
    assert taken_from_outside(engines[cases[0][0]]) <= ALLOWED_SYMBOLS
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


@pytest.mark.parametrize("op", operators())
def test_cpp_takes_it(op: str, tmp_path: Path) -> None:
    need("g++")
    compiled, interpreted = (HOST, AVX_VNNI, DSP), (GENERIC, MVE)
    modes: dict[Target, Mode] = dict.fromkeys(compiled, "compiled") | dict.fromkeys(interpreted, "interpreted")
    projects = [emit(plan.printed(mode=modes[plan.target]), name) for name, _, _, plan in models(op, *modes)]
    write_files(tmp_path, library_sources(projects, entries))
    run_tool(["g++", "-x", "c++", "-std=c++20", "-fsyntax-only", "-march=native", *WARNINGS, "library.c"], tmp_path)


@pytest.mark.parametrize("op", operators())
def test_no_fault_under_sanitizers(op: str, tmp_path: Path) -> None:
    """The self-tests of all cases in one program: compiled for small targets, interpreted for the host.

    Kernels read their params at run time, so that the compiler decides none of their steps.
    """
    need("gcc")
    modes: dict[Target, Mode] = dict.fromkeys((HOST, AVX_VNNI), "interpreted")
    modes |= dict.fromkeys((GENERIC, DSP, MVE), "compiled")
    cases = list(models(op, *modes))
    projects = with_common_instances(
        [emit(plan.printed(mode=modes[plan.target]), name, policy=share_all) for name, _, _, plan in cases]
    )
    assert_sanitized(tmp_path, [(project, values) for project, (_, _, values, _) in zip(projects, cases, strict=True)])


@pytest.mark.corpus("app", "op", "derived", sample=40)
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
