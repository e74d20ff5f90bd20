"""The emitted C as text and under compilers: golden files, determinism, no warnings, exact constants, what links in."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from cases import ALLOWED_SYMBOLS
from hypothesis import given
from hypothesis import strategies as st

from twinfer.aot import emit as emit_module
from twinfer.aot import layers
from twinfer.aot import project as project_module
from twinfer.aot.emit import emit
from twinfer.aot.host import build, compile_plans, find_compiler
from twinfer.aot.layers import share_all, specialise
from twinfer.aot.literals import comment, identifier
from twinfer.aot.project import project_files
from twinfer.aot.tools import write_files
from twinfer.runtime.errors import InvalidArgumentError, ToolError
from twinfer.runtime.graph import DTYPES, Graph, Tensor
from twinfer.runtime.plan import make_plan, random_inputs

GOLDEN = Path(__file__).resolve().parent / "golden"
WARNINGS = ("-O3", "-ffp-contract=off", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")
DIALECTS = {
    "gcc": ("gcc", "-std=c11"),
    "clang": ("clang", "-std=c11"),
    "g++": ("g++", "-std=c++20", "-x", "c++"),
    "clang++": ("clang++", "-std=c++20", "-x", "c++"),
}


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


def installed(words: tuple[str, ...]) -> None:
    try:
        find_compiler(words[0])
    except ToolError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", tiny.MODELS)
def test_golden(name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Read the difference in review; ``pytest --refresh-golden`` writes the files anew."""
    for module in (emit_module, project_module):
        monkeypatch.setattr(module, "version", lambda: "VERSION")
    files, folder = tiny.project(name), GOLDEN / name
    if request.config.getoption("refresh_golden"):
        write_files(folder, files)
    for path, text in files.items():
        assert text == (folder / path).read_text(encoding="utf-8"), f"{name}/{path} has changed; --refresh-golden"
    assert {p.name for p in folder.iterdir()} == set(files)


def test_same_text_in_every_process() -> None:
    digests = set()
    for seed in ("0", "1", "random"):
        done = subprocess.run(
            [sys.executable, tiny.__file__],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(done.stdout)
    assert len(digests) == 1


@pytest.mark.parametrize("name", tiny.MODELS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_compiles_without_warnings(name: str, dialect: str, tmp_path: Path) -> None:
    installed(DIALECTS[dialect])
    plan = tiny.MODELS[name]()
    for policy in (specialise, share_all):
        project = emit(plan, name, policy=policy)
        write_files(tmp_path, project_files(project, random_inputs(plan.graph)))
        for source in sorted(tmp_path.glob("*.c")):
            run([*DIALECTS[dialect], *WARNINGS, "-c", source.name, "-o", "out.o"], tmp_path)


@pytest.mark.parametrize("name", tiny.MODELS)
def test_header_serves_old_cpp(name: str, tmp_path: Path) -> None:
    installed(("g++",))
    write_files(tmp_path, emit(tiny.MODELS[name](), name).files)
    call = f'#include "{name}.h"\nint main() {{ return {name}_run(nullptr, nullptr, nullptr) != 1; }}\n'
    (tmp_path / "main.cpp").write_text(call)
    run(["g++", "-std=c++11", *WARNINGS, "-c", "main.cpp"], tmp_path)
    run(["gcc", "-std=c11", "-c", f"{name}.c", f"{name}_data.c"], tmp_path)
    run(["g++", "main.o", f"{name}.o", f"{name}_data.o", "-lm", "-o", "main"], tmp_path)
    run([str(tmp_path / "main")], tmp_path)


@pytest.mark.parametrize("name", tiny.MODELS)
def test_no_libc_and_no_writable_data(name: str, tmp_path: Path) -> None:
    installed(("gcc",))
    write_files(tmp_path, emit(tiny.MODELS[name](), name).files)
    run(["gcc", "-std=c11", "-O3", "-c", f"{name}.c", f"{name}_data.c", f"{name}_static.c"], tmp_path)
    model = symbols(tmp_path, f"{name}.o", f"{name}_data.o")
    defined = {symbol for kind, symbol in model if kind != "U"}
    assert {symbol for kind, symbol in model if kind == "U"} - defined <= ALLOWED_SYMBOLS
    assert {kind for kind, _ in model} <= set("UTtRr")
    writable = [symbol for kind, symbol in symbols(tmp_path, f"{name}_static.o") if kind not in "UTtRr"]
    assert writable == [f"{name}_static_arena"]


def symbols(folder: Path, *objects: str) -> list[tuple[str, str]]:
    """Kind (nm's letter) and name of every symbol of the objects."""
    lines = [line.split() for line in run(["nm", *objects], folder).splitlines()]
    return [(words[-2], words[-1]) for words in lines if len(words) > 1]


def constant_model(arrays: list[Any], types: list[str]) -> Graph:
    outputs = tuple(Tensor(f"c{i}", t, a.shape, data=a) for i, (a, t) in enumerate(zip(arrays, types, strict=True)))
    return Graph("constants", outputs, (), (), outputs)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_constants_keep_every_bit(compiler: str, tmp_path: Path) -> None:
    """All types, extremes first, then random bits: NaNs with payloads, denormals, infinities."""
    installed((compiler,))
    rng = np.random.default_rng(3)
    arrays, types = [], []
    for name, dtype in DTYPES.items():
        bits = np.concatenate([np.repeat(np.array([0, 255], np.uint8), 16), rng.integers(0, 256, 1600, np.uint8)])
        array = (bits & 1).view(dtype) if name == "BOOL" else bits.view(dtype)
        ends = [np.iinfo(dtype).min, np.iinfo(dtype).max] if dtype.kind in "iu" else []
        arrays.append(np.concatenate([np.array(ends, dtype), array]))
        types.append(name)
    arrays.append(tiny.ODD_FLOATS)
    types.append("FLOAT32")
    write_files(tmp_path, emit(make_plan(constant_model(arrays, types)), "all_types").files)
    run([compiler, "-std=c11", "-shared", "-fPIC", *WARNINGS, "all_types_data.c", "-o", "data.so"], tmp_path)
    library = ctypes.CDLL(str(tmp_path / "data.so"))
    for i, array in enumerate(arrays):
        kept = (ctypes.c_char * array.nbytes).in_dll(library, f"all_types_output_{i}")
        assert bytes(kept) == array.tobytes(), types[i]


def test_equal_constants_are_kept_once() -> None:
    a = np.arange(40, dtype=np.int32)
    project = emit(make_plan(constant_model([a, a.copy(), a.view(np.uint32)], ["INT32", "INT32", "UINT32"])), "m")
    assert project.constants.nbytes == 320
    assert project.files["m_data.c"].count("alignas(") == 2


def test_equal_params_share_one_body() -> None:
    text = emit(tiny.dense(), "m").files["m.c"]
    assert text.count("_body(&m_") == 2, "layers 1 and 2 have equal params"
    assert "TW_SHARED" not in text
    assert emit(tiny.dense(), "m", policy=share_all).files["m.c"].count("TW_SHARED(") == 1


def test_many_bodies_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the two different bodies, the one with less work shares."""
    monkeypatch.setattr(layers, "MOST_BODIES", 1)
    plan = tiny.dense()
    assert specialise(plan) == {0}
    text = emit(plan, "m").files["m.c"]
    assert text.count("TW_SHARED(") == text.count("m_tw_fully_connected_s8(&m_0_params") == 1


def test_policies_give_the_same_bits() -> None:
    installed(("gcc",))
    plan = tiny.dense()
    outputs = []
    for policy in (specialise, share_all, lambda _: frozenset([1])):
        engine = compile_plans({"m": plan}, compiler="gcc", policy=policy)["m"]
        engine.view(plan.graph.inputs[0])[...] = random_inputs(plan.graph)[0]
        engine.run()
        outputs.append(engine.view(plan.graph.outputs[0]).tobytes())
    assert outputs[0] == outputs[1] == outputs[2]


@pytest.mark.parametrize("name", ["", "1x", "a-b", "int", "tw_x", "x" * 64, "a\nb", "é"])
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot name"):
        emit(tiny.state(), name)


@given(st.text())
def test_any_text_makes_a_name_and_a_comment(text: str) -> None:
    emit_module.check_name(identifier(text)[:60])
    made = comment(text)
    assert made.isascii()
    assert made.isprintable() or not made
    assert not any(mark in made for mark in ("*/", "/*", "??"))


def load(name: str) -> tuple[Any, Any]:
    plan = tiny.MODELS[name]()
    return plan, ctypes.CDLL(str(build([emit(plan, name)], find_compiler("gcc"), ("-shared", "-fPIC", "-O1"))))


def test_pointers_and_status() -> None:
    """Null arena, misaligned arena, absent values, values in place, constants as outputs."""
    installed(("gcc",))
    plan, library = load("passing")
    x = random_inputs(plan.graph)[0].tobytes()
    memory = (ctypes.c_char * (plan.arena_bytes + 32))()
    base = ctypes.addressof(memory)
    base += -base % 16
    at = [plan.offsets.get(t, 0) for t in plan.graph.outputs]
    assert library.passing_run(None, None, None) == 1
    assert library.passing_run(ctypes.c_void_p(base + 1), None, None) == 2
    inputs = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.c_char_p(x), ctypes.c_void_p).value)
    constant = (ctypes.c_char * 36)()
    outputs = (ctypes.c_void_p * 4)(base + at[0], None, None, ctypes.addressof(constant))
    assert library.passing_run(ctypes.c_void_p(base), inputs, outputs) == 0
    assert ctypes.string_at(base + at[0], 30) == ctypes.string_at(base + at[2], 30) == x
    assert ctypes.string_at(base + at[1], 36) == bytes(constant) == tiny.ODD_FLOATS.tobytes()
    changed = x[::-1]
    ctypes.memmove(base + plan.offsets[plan.graph.inputs[0]], changed, 30)
    for in_place in (None, (ctypes.c_void_p * 1)(None), (ctypes.c_void_p * 1)(base + at[2])):
        assert library.passing_run(ctypes.c_void_p(base), in_place, None) == 0
        assert ctypes.string_at(base + at[0], 30) == changed


def test_reset() -> None:
    installed(("gcc",))
    plan, library = load("state")
    memory = (ctypes.c_char * (plan.arena_bytes + 32))(*b"\xa5" * (plan.arena_bytes + 32))
    base = ctypes.addressof(memory)
    base += -base % 16
    library.state_reset(ctypes.c_void_p(base))
    values = [ctypes.string_at(base + plan.offsets[t], t.nbytes) for t in plan.variables]
    assert values == [bytes([249] * 6), bytes(20)]
