"""Building for this machine: the cache, several processes at once, errors of tools, and the compiled engine."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from test_compiled import WARNINGS

import twinfer
from twinfer.aot.build import host, toolchain
from twinfer.aot.build.compiled import compile
from twinfer.aot.build.host import FLAGS, build, compile_plans
from twinfer.aot.print.emit import emit
from twinfer.bench.models.source import load
from twinfer.converter.build import Builder
from twinfer.runtime import tools
from twinfer.runtime.errors import InvalidArgumentError, ToolError
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.files import cache_folder
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.session import Session
from twinfer.runtime.tools import find_compiler

#: Where ziglang keeps the libraries of C that it builds for a system, which takes minutes.
ZIG = str(Path(__file__).resolve().parents[2] / "build" / "cache" / "zig")


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", ZIG)
    monkeypatch.delenv("CC", raising=False)
    try:
        find_compiler()
    except ToolError as error:
        pytest.skip(str(error))
    return tmp_path / "cache" / "twinfer"


def test_built_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_plans({"m": tiny.dense()})
    assert cache_folder() == cache
    before = {p: p.stat().st_mtime_ns for p in cache.iterdir()}
    assert [p.suffix for p in before] == [".so"]
    tools.compiler_version(find_compiler())
    monkeypatch.setattr(tools, "run_tool", lambda *_: pytest.fail("the compiler ran again"))
    compile_plans({"m": tiny.dense()})
    assert {p: p.stat().st_mtime_ns for p in cache.iterdir()} == before


def test_whatever_it_is_made_from_is_in_the_key(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = find_compiler()
    projects = [tiny.emit(tiny.dense(), "m")]
    paths = {build(projects, compiler, FLAGS), build(projects, compiler, (*FLAGS, "-g0"))}
    paths.add(build([tiny.emit(tiny.dense(), "n")], compiler, FLAGS))
    monkeypatch.setattr(host, "compiler_version", lambda _: "another")
    paths.add(build(projects, compiler, FLAGS))
    monkeypatch.setattr(host, "cpu", lambda: "another")
    paths.add(build(projects, compiler, FLAGS))
    assert len(paths) == len(list(cache.iterdir())) == 5


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("no-such-compiler", "no C compiler found.*install"),
        ("false", "failed with status 1"),
        ("gcc -bad-flag", "-bad-flag"),
    ],
)
def test_tool_errors(command: str, message: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", command)
    with pytest.raises(ToolError, match=message):
        compile_plans({"m": tiny.dense()})
    assert not cache.exists() or not list(cache.iterdir())


def test_cache_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(ToolError, match="XDG_CACHE_HOME"):
        compile_plans({"m": tiny.dense()})


@pytest.mark.parametrize("name", tiny.MODELS)
def test_engines_are_twins(name: str) -> None:
    """Whole runs and layer by layer: every tensor after every step, over several runs, then with variables reset."""
    plan = tiny.MODELS[name]()
    engines = [Session(plan), compile_plans({name: plan})[name]]
    seen: list[list[Any]] = [[], []]
    for engine, values in zip(engines, seen, strict=True):

        def look(i: int, step: Any, engine: Session = engine, values: list[Any] = values) -> None:
            values.append((i, [engine.view(t).tobytes() for t in step.call.written]))

        for seed in range(2):
            for tensor, value in zip(plan.graph.inputs, random_inputs(plan.graph, seed), strict=True):
                engine.view(tensor)[...] = value
            engine.run()
            values.append([engine.view(t).tobytes() for t in plan.graph.outputs])
            engine.run_observed(look)
        engine.reset_variables()
        values.append([engine.view(t).tobytes() for t in plan.variables])
    assert seen[0] == seen[1]


@pytest.mark.deep
def test_the_compiler_of_a_wheel(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where no other is, ziglang's compiler builds the same twin."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "ziglang" in find_compiler()
    graph = tiny.dense().graph
    values = random_inputs(graph)[0]
    want = Interpreter.from_graph(graph).run(values, integers=True)
    np.testing.assert_array_equal(compile(graph).run(values, integers=True), want)


@pytest.mark.deep
@pytest.mark.parametrize(("system", "machine"), [("win32", "x86_64-windows-gnu"), ("darwin", "aarch64-macos")])
def test_other_systems_build_a_library(system: str, machine: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a warning, by ziglang's cross compilers; nobody here can load it."""
    monkeypatch.setattr(host.sys, "platform", system)
    plan = make_plan(load("kws_int8").graph)
    flags = [flag for flag in FLAGS if flag != "-march=native"]
    compiler = (sys.executable, "-m", "ziglang", "cc", "-target", machine)
    assert build([emit(plan, "m")], compiler, (*flags, *toolchain.WARNINGS)).stat().st_size > 30_000


def test_compile_is_the_interpreter() -> None:
    graph = tiny.dense().graph
    twins = [Interpreter.from_graph(graph), compile(graph)]
    outputs = []
    for twin in twins:
        twin.allocate_tensors()
        twin.set_tensor(twin.get_input_details()[0]["index"], random_inputs(graph)[0])
        twin.invoke()
        outputs.append(twin.get_tensor(twin.get_output_details()[0]["index"]).tobytes())
    assert outputs[0] == outputs[1]
    with pytest.raises(InvalidArgumentError, match="cortex-m4"):
        compile(graph, target="cortex-m4")


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_without_outputs_or_without_inputs(compiler: str) -> None:
    """The copying function is there only if there is something to copy: an unused one would be a warning."""
    plans = {}
    for name in ("both", "input", "output", "neither"):
        b = Builder(name)
        x = b.input("x", "FLOAT32", (1, 3)) if name in ("both", "input") else b.constant(np.ones((1, 3), np.float32))
        y = b.op("RELU", [x])
        plans[name] = make_plan(b.graph([y] if name in ("both", "output") else []))
    engines = compile_plans(plans, compiler=compiler, flags=(*FLAGS, *WARNINGS))
    for name, engine in engines.items():
        engine.run()
        assert ("_copy(void" in emit(plans[name], name).code[f"{name}.c"]) == (name != "neither")


def mapped(folder: Path) -> int:
    """How many parts of libraries of a folder this process has in its memory."""
    return sum(str(folder) in line for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines())


def test_libraries_of_dropped_models_are_closed(cache: Path) -> None:
    """And what was taken from them stays: outputs, and views of memory."""
    content = bytes(twinfer.write(tiny.dense().graph))
    model = twinfer.compile(content)
    one = mapped(cache)
    assert one > 0
    kept = []
    for i in range(100):
        model = twinfer.compile(content)
        model.set_tensor(0, np.full((1, 6), i - 50, np.int8))
        model.invoke()
        out = model.get_output_details()[0]["index"]
        kept.append((model.get_tensor(out), model.tensor(out)()))
        del model
        if i % 50 == 49:
            gc.collect()
            assert mapped(cache) == 0
    for copy, view in kept:
        np.testing.assert_array_equal(copy, view)
    assert len({copy.tobytes() for copy, _ in kept}) > 10
