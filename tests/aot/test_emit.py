"""The emitted C as text and under compilers: golden files, determinism, no warnings, exact constants, linked
symbols."""

from __future__ import annotations

import ctypes
import math
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import tiny
from cases import ALLOWED_SYMBOLS, write_self_tests
from flows import Sub
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import need_tools

from twinfer.aot.build import depth
from twinfer.aot.build import project as project_module
from twinfer.aot.build.host import build
from twinfer.aot.print import emit as emit_module
from twinfer.aot.print.emit import emit
from twinfer.aot.print.interface import Stack
from twinfer.aot.print.literals import comment, identifier, in_makefile, in_recipe
from twinfer.aot.print.structure import number_of
from twinfer.bench.models.builtin import builtin
from twinfer.converter.stream.convert import stream
from twinfer.kernels_c import kernel as kernel_function
from twinfer.runtime.errors import InvalidArgumentError, ToolError
from twinfer.runtime.graph import DTYPES, Graph, Quant, Tensor
from twinfer.runtime.op import tensor
from twinfer.runtime.options import Mode, Options
from twinfer.runtime.plan import choice
from twinfer.runtime.plan import price as price_module
from twinfer.runtime.plan.choice import Policy, by_price, cold, default_policy, share_all, specialise
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.price import Price
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.stream import steps_of
from twinfer.runtime.target import GENERIC, HOST
from twinfer.runtime.tools import find_compiler, write_files

GOLDEN = Path(__file__).resolve().parent / "golden"
WARNINGS = ("-O3", "-ffp-contract=off", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")
NEWLIB = "/usr/include/newlib"
DIALECTS = {
    "gcc": ("gcc", "-std=c11"),
    "clang": ("clang", "-std=c11"),
    "g++": ("g++", "-std=c++20", "-x", "c++"),
    "clang++": ("clang++", "-std=c++20", "-x", "c++"),
    "cortex-m0": ("arm-none-eabi-gcc", "-std=c11", "-mcpu=cortex-m0", "-mthumb"),
    "cortex-m7": ("arm-none-eabi-gcc", "-std=c11", "-mcpu=cortex-m7", "-mthumb", "-mfpu=fpv5-d16", "-mfloat-abi=hard"),
    "clang-m4": ("clang", "-std=c11", "--target=arm-none-eabi", "-mcpu=cortex-m4", "-isystem", NEWLIB),
}
#: Those that also have what programs must ask for.
ASKED = ("gcc", "clang++", "cortex-m0")
EVERY_OTHER: Policy = lambda plan: frozenset(range(1, len(plan.steps), 2))  # noqa: E731
#: Which layers share a body, and the mode.
FORMS: list[tuple[Policy | None, Mode]] = [
    (None, "compiled"),
    (share_all, "compiled"),
    (EVERY_OTHER, "compiled"),
    (None, "interpreted"),
]


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


def installed(words: tuple[str, ...]) -> None:
    try:
        find_compiler(words[0])
    except ToolError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("folder", ["dense", "conv", "state", "flow", "rows", "dense_interpreted", "rows_interpreted"])
def test_golden(folder: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Read the difference in review; ``pytest --refresh-golden`` writes the files anew."""
    for module in (project_module, emit_module):
        monkeypatch.setattr(module, "version", lambda: "VERSION")
    name, _, interpreted = folder.partition("_")
    files = dict(tiny.project(name, "interpreted" if interpreted else "compiled"))
    assert files.pop("stack.py") == Path(depth.__file__).read_text(encoding="utf-8"), "it is one file of ours, as it is"
    files = {path: text for path, text in files.items() if kept(folder, path)}
    if request.config.getoption("refresh_golden"):
        write_files(GOLDEN / folder, files)
    for path, text in files.items():
        old = (GOLDEN / folder / path).read_text(encoding="utf-8")
        assert text == old, f"{folder}/{path} has changed; --refresh-golden"
    assert {p.name for p in (GOLDEN / folder).iterdir()} == set(files)


def kept(folder: str, path: str) -> bool:
    """Whether a golden folder has this file: one has all, others what differs most."""
    more = {"conv": {"conv.h", "conv_data.c"}, "state": {"state.h"}}.get(folder, set())
    return folder == "dense" or path == f"{folder.split('_')[0]}.c" or path in more


@pytest.mark.parametrize("dialect", DIALECTS)
def test_compiles_without_warnings(dialect: str, tmp_path: Path) -> None:
    """All small models in all forms, with their self-tests, as one file."""
    installed(DIALECTS[dialect])
    programs = []
    for name, made in {**tiny.MODELS, **tiny.BY_ROWS}.items():
        plan = made()
        if "m" in dialect:
            plan = make_plan(plan.graph, GENERIC, plan.options)
        values = random_inputs(plan.graph)
        programs += [
            (emit(plan.printed(mode=mode), f"{name}_{i}", policy=policy), values)
            for i, (policy, mode) in enumerate(FORMS)
        ]
    write_self_tests(tmp_path, programs)
    asked = ["-DTW_RUN_LAYERS", "-DTW_HOOK(layer)=((layer) < 0)"] if dialect in ASKED else []
    run([*DIALECTS[dialect], *WARNINGS, *asked, "-fsyntax-only", "all.c"], tmp_path)


@pytest.mark.parametrize("name", ["passing", "state"])
def test_header_serves_old_cpp(name: str, tmp_path: Path) -> None:
    installed(("g++",))
    write_files(tmp_path, emit(tiny.MODELS[name](), name).files)
    nothing = ", ".join(["nullptr"] * (4 if name == "state" else 3))
    call = f'#include "{name}.h"\nint main() {{ return {name}_run({nothing}) != 1; }}\n'
    (tmp_path / "main.cpp").write_text(call)
    run(["g++", "-std=c++11", *WARNINGS, "-c", "main.cpp"], tmp_path)
    run(["gcc", "-std=c11", "-c", f"{name}.c", f"{name}_data.c"], tmp_path)
    run(["g++", "main.o", f"{name}.o", f"{name}_data.o", "-lm", "-o", "main"], tmp_path)
    run([str(tmp_path / "main")], tmp_path)


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("name", ["dense", "state"])
def test_no_libc_and_no_writable_data(name: str, mode: Mode, tmp_path: Path) -> None:
    installed(("gcc",))
    write_files(tmp_path, emit(tiny.MODELS[name]().printed(mode=mode), name).files)
    sources = [f"{name}.c", f"{name}_data.c", f"{name}_static.c", f"{name}_check.c"]
    run(["gcc", "-std=c11", "-O3", "-fno-pie", "-fno-pic", "-c", *sources], tmp_path)
    model = symbols(tmp_path, f"{name}.o", f"{name}_data.o")
    defined = {symbol for kind, symbol in model if kind != "U"}
    assert {symbol for kind, symbol in model if kind == "U"} - defined <= ALLOWED_SYMBOLS
    assert {kind for kind, _ in model} <= set("UTtRr")
    writable = [symbol for kind, symbol in symbols(tmp_path, f"{name}_static.o") if kind not in "UTtRr"]
    assert writable == [f"{name}_static_{block}" for block in (["arena", "state"] if name == "state" else ["arena"])]


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


def test_constants_of_one_source_are_kept_once() -> None:
    """One array is one constant per type that it is read as. Equal arrays stay apart: training may change one of
    them."""
    a = np.arange(40, dtype=np.int32)
    model = constant_model([a, a[:], a.view(np.uint32), a.copy()], ["INT32", "INT32", "UINT32", "INT32"])
    project = emit(make_plan(model), "m")
    assert project.constants.nbytes == 480
    assert project.files["m_data.c"].count("alignas(") == 3


def halved(quant: Quant | None) -> Quant | None:
    return quant and replace(quant, scale=quant.scale / 2)


def with_weights(graph: Graph, change: Callable[[Any], Any]) -> Graph:
    """The model with changed constants and scales."""
    trained = {t: replace(t, data=change(t.data), quant=halved(t.quant)) for t in graph.tensors if t.data is not None}
    nodes = tuple(replace(n, inputs=tuple(trained.get(t, t) for t in n.inputs)) for n in graph.nodes)
    return replace(graph, tensors=tuple(trained.get(t, t) for t in graph.tensors), nodes=nodes)


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("name", ["dense", "conv"])
def test_training_changes_the_data_file_only(name: str, mode: Mode) -> None:
    """Also if weights become equal or zero."""
    plan = tiny.MODELS[name]()
    before = emit(plan.printed(mode=mode), name, sha256="0" * 64).files
    for change in (lambda data: -data, lambda data: np.zeros_like(data)):
        retrained = make_plan(with_weights(plan.graph, change), plan.target)
        after = emit(retrained.printed(mode=mode), name, sha256="1" * 64).files
        assert [path for path in before if before[path] != after[path]] == [f"{name}_data.c"]
        assert before.keys() == after.keys()


QUANTIZERS = (
    ("INT8", 0.05, -7),
    ("INT8", 3e-5, 127),
    ("UINT8", 1 / 255, 0),
    ("UINT8", 2.0, 255),
    ("INT16", 0.1, -32768),
    ("INT16", 1e30, 0),
)

#: Loops over the helpers of one input.
LOOPS = """
void to_N(const float *x, TYPE *y, int n) { while (n--) *y++ = q_quantize_input_N(*x++); }
void of_N(const TYPE *x, float *y, int n) { while (n--) *y++ = q_dequantize_input_N(*x++); }
"""


def test_header_quantizes_as_numpy(tmp_path: Path) -> None:
    """Halves, their neighbours, both ends and beyond. Every value survives the way there and back."""
    installed(("gcc",))
    tensors = tuple(tensor((4,), t, s, z, name=t) for t, s, z in QUANTIZERS)
    project = emit(make_plan(Graph("q", tensors, (), tensors, tensors[:1])), "q")
    loops = [LOOPS.replace("_N", f"_{i}").replace("TYPE", f"{t.type.lower()}_t") for i, t in enumerate(tensors)]
    write_files(tmp_path, {**project.files, "all.c": '#include "q.h"' + "".join(loops)})
    run(["gcc", "-std=c11", "-O2", "-shared", "-fPIC", "all.c", "-o", "all.so"], tmp_path)
    library = ctypes.CDLL(str(tmp_path / "all.so"))
    for i, t in enumerate(tensors):
        check_quantizer(library, i, t)


def check_quantizer(library: ctypes.CDLL, i: int, t: Tensor) -> None:
    limits = np.iinfo(t.dtype)
    every = np.arange(limits.min, limits.max + 1).astype(t.dtype)
    real = np.empty(every.size, np.float32)
    getattr(library, f"of_{i}")(every.ctypes, real.ctypes, every.size)
    scale = np.float32(t.scale)
    np.testing.assert_array_equal(real, (every.astype(np.int64) - t.zero).astype(np.float32) * scale)
    back = np.empty_like(every)
    getattr(library, f"to_{i}")(real.ctypes, back.ctypes, every.size)
    np.testing.assert_array_equal(back, every)
    halves = np.concatenate([np.arange(-700, 700) / 2, [1e9, -1e9]]).astype(np.float32)
    scaled = np.concatenate([halves, *(np.nextafter(halves, np.float32(d)) for d in (-np.inf, 0, np.inf))])
    with np.errstate(over="ignore"):
        x = np.concatenate([scaled, scaled * scale, np.array([np.inf, -np.inf], np.float32)])
        scaled = (x / scale).astype(np.float64)
    want = np.clip(np.copysign(np.floor(np.abs(scaled) + 0.5), scaled) + t.zero, limits.min, limits.max).astype(t.dtype)
    got = np.empty(x.size, t.dtype)
    getattr(library, f"to_{i}")(x.ctypes, got.ctypes, x.size)
    np.testing.assert_array_equal(got, want)


def test_a_mode_that_does_not_exist() -> None:
    with pytest.raises(InvalidArgumentError, match="compiled, interpreted"):
        emit(tiny.dense().printed(mode="fast"), "m")  # type: ignore[arg-type]


def test_many_bodies_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one of two bodies that does less work is shared."""
    monkeypatch.setattr(choice, "MOST_BODIES", 1)
    plan = tiny.dense()
    assert specialise(plan) == default_policy(plan) == {0}
    text = emit(plan, "m", policy=lambda _: frozenset([0])).files["m.c"]
    assert text.count("TW_SHARED(") == text.count("m_tw_fully_connected_s8(&m_0_params") == 1


@pytest.mark.parametrize(
    ("price", "worth", "shared"),
    [
        (Price(100, 250, saved=8), 0, set()),  # two bodies are less than an instance
        (Price(100, 150, saved=8), 0, {0, 1, 2}),
        (Price(100, 150, saved=8), 3, set()),
        (Price(200, 50, saved=8), 6, {0}),  # the layer that writes least
        (Price(-10, 50, saved=0), 0, set()),
    ],
)
def test_what_is_worth_a_body(price: Price, worth: float, shared: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Layer 0 does a third of the work; layers 1 and 2, which share a body, do the rest."""
    for module in (choice, price_module):
        monkeypatch.setattr(module, "price_of", lambda call, target: price)
    monkeypatch.setattr(choice, "WORTH", {"balanced": worth, "size": worth})
    plan = tiny.dense()
    assert by_price(plan) == default_policy(plan) == shared
    on_host = replace(plan, target=HOST)
    assert default_policy(on_host) == set(), "flash is not dear"
    assert default_policy(on_host.printed(optimize="size")) == by_price(on_host.printed(optimize="size"))


def test_prices_are_of_kernels() -> None:
    """Every entry of the file is a form of an existing kernel with sane prices. If not: make prices."""
    for form, price in price_module._prices().items():
        assert kernel_function(form.partition("-")[0], 0)
        assert price.pace > 0
        assert 0 < price.instance < (30_000 if "_simd128_" in form else 5000)
        assert 0 < price.small_instance < (30_000 if "_simd128_" in form else 5000)


def test_code_for_size_has_prices_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        choice, "price_of", lambda call, target: Price(100, 150, small_body=50, small_instance=150, saved=0)
    )
    plan = tiny.dense()
    assert by_price(plan) == {0, 1, 2}
    assert by_price(plan.printed(optimize="size")) == set()


def test_little_work_is_compiled_for_size(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = tiny.dense()
    assert cold(plan) == set()
    assert "TW_COLD" not in emit(plan, "m").files["m.c"]
    monkeypatch.setattr(choice, "COLD", {"balanced": 0.4, "size": 0.7})
    assert cold(plan) == {0}
    assert cold(plan.printed(optimize="size")) == {0, 1}
    assert cold(replace(plan, target=HOST)) == set(), "flash is not dear"
    assert cold(replace(plan, target=HOST).printed(optimize="size")) == {0, 1}, "unless it is asked for"
    text = emit(plan, "m").files["m.c"]
    assert text.count("TW_COLD") == text.count("TW_COLD M_CODE(0) void m_0_") == 1
    assert emit(plan, "m", policy=share_all).files["m.c"].count("TW_COLD") == 1, "the instance has more work"


def test_the_setting_is_told() -> None:
    plan = tiny.dense()
    assert "for target generic. Do not" in emit(plan, "m").banner
    slim = plan.printed(optimize="size", mode="interpreted")
    assert "for target generic, interpreted, for size. Do not" in emit(slim, "m").banner
    with pytest.raises(InvalidArgumentError, match="cannot optimize for 'beauty', only for speed, balanced, size"):
        plan.printed(optimize="beauty")  # type: ignore[typeddict-item]


@pytest.mark.parametrize("name", ["", "1x", "a-b", "int", "test", "string", "library", "tw_x", "x" * 64, "a\nb", "é"])
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot name"):
        emit(tiny.state(), name)


@given(st.text())
def test_any_text_makes_a_name_and_a_comment(text: str) -> None:
    emit_module.check_name(identifier(text)[:60])
    written = comment(text)
    assert written.isascii()
    assert written.isprintable() or not written
    assert not any(mark in written for mark in ("*/", "/*", "??"))


def load(name: str) -> tuple[Any, Any]:
    plan = tiny.MODELS[name]()
    return plan, ctypes.CDLL(str(build([emit(plan, name)], find_compiler("gcc"), ("-shared", "-fPIC", "-O1"))))


WORDS = st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12), min_size=1, max_size=4)


@settings(max_examples=25)
@given(WORDS)
def test_words_reach_a_command_as_they_are(words: list[str]) -> None:
    """Through a variable of make, through a recipe, and through the shell that make calls."""
    need_tools("make")
    show = "printf '%s\\n'"
    text = f"X = {in_makefile(words)}\nall:\n\t@{show} $(X)\n\t@{show} {in_recipe(words)}\n"
    done = subprocess.run(["make", "-s", "-f", "-"], input=text, capture_output=True, text=True, check=True)
    assert done.stdout == 2 * "".join(f"{word}\n" for word in words)


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


def unread_rows() -> Graph:
    """A convolution that does not need the last row of its input."""
    sub, rng = Sub("m"), np.random.default_rng(0)
    x = sub.input((1, 8, 5, 3), "INT8", quant=Quant.per_tensor(0.1, -4))
    w = sub.constant(rng.integers(-9, 9, (4, 3, 3, 3)), "INT8", Quant(np.full(4, 0.5, np.float32), np.zeros(4, int), 0))
    y = sub.tensor((1, 3, 2, 4), "INT8", quant=Quant.per_tensor(2.0, 7))
    how = {"padding": "VALID", "stride_h": 2, "stride_w": 2, "dilation_h_factor": 1, "dilation_w_factor": 1}
    sub.run("CONV_2D", [x, w, sub.constant(np.zeros(4, np.int32), "INT32")], [y], **how)
    return sub.graph([y])


HEADERS: dict[str, tuple[Callable[[], Graph], Options]] = {
    "conv": (lambda: tiny.conv().graph, Options()),
    "state": (lambda: tiny.state().graph, Options()),
    "given by rows": (unread_rows, Options(memory="rows", input_rows=True)),
    "in place": (unread_rows, Options(input_in_place=True)),
    "stream": (lambda: stream(builtin()["tcn_int8"]()).graph, Options()),
}


@pytest.mark.parametrize("name", HEADERS)
def test_every_macro_of_a_header(name: str, tmp_path: Path) -> None:
    """As the preprocessor reads them: sizes, shapes and scales of the graph's own tensors, blocks of the plan."""
    installed(("gcc",))
    made, options = HEADERS[name]
    plan = make_plan(made(), GENERIC, options)
    project = emit(plan, "m").with_stack(Stack(1234))
    up = lambda n: -(-n // plan.target.alignment) * plan.target.alignment  # noqa: E731
    arena, state = max(plan.target.alignment, up(plan.arena_bytes)), up(plan.state_bytes)
    want: dict[str, Any] = {
        "ARENA_BYTES": arena, "STATE_BYTES": state, "ARENA_ALIGN": plan.target.alignment, "STACK_BYTES": 1234,
        "LOWER_BOUND_BYTES": plan.lower_bound_bytes, "MACS": plan.macs, "INPUT_COUNT": len(plan.graph.inputs),
        "LAYER_COUNT": len(plan.steps), "STRUCTURE": f"0x{number_of(project.structure):08X}u",
        "OUTPUT_COUNT": len(plan.graph.outputs), "TWINFER_VERSION": f'"{version("twinfer")}"',
        "CONSTANT_BYTES": sum(each.array.nbytes for each in project.constants.all),
    }  # fmt: skip
    if state:
        want |= {"MEMORY_BYTES": arena + state, "STATE_OFFSET": arena}
    if name == "stream":
        want["STREAM_STEPS"] = steps_of(plan.graph).first
    for kind, tensors in (("INPUT", plan.graph.inputs), ("OUTPUT", plan.graph.outputs)):
        for i, t in enumerate(tensors):
            c = {"int8": "int8_t", "float32": "float", "int16": "int16_t", "bool": "uint8_t"}[t.dtype.name]
            size, shape = math.prod(t.shape), "{" + ", ".join(map(str, t.shape)) + "}"
            own: dict[str, Any] = {"BYTES": size * t.dtype.itemsize, "SIZE": size, "TYPE": c}
            own |= {"RANK": len(t.shape), "SHAPE": shape}
            if name == "in place" and kind == "INPUT":
                own |= {"IN_PLACE": 1, "ALIGN": max(plan.target.block_alignment, t.dtype.itemsize)}
            elif t in plan.places:
                own["OFFSET"] = plan.places[t].offset
            if name == "given by rows" and kind == "INPUT":
                own |= {"ROWS": 7, "ROW_BYTES": 5 * 3}
            if t.quant is not None and t.quant.scale.size == 1:
                own |= {"SCALE": np.float32(t.quant.scale[0]), "ZERO_POINT": int(t.quant.zero_point[0])}
            want |= {f"{kind}_{i}_{key}": value for key, value in own.items()}
    write_files(tmp_path, project.code)
    said = subprocess.run(["gcc", "-E", "-dM", "m.h"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    defined = dict(re.findall(r"^#define M_(\w+) (.*)$", said, re.MULTILINE))
    assert defined.keys() - {"H"} == want.keys()
    for key, value in want.items():
        text = defined[key].strip()
        if key.endswith("_SCALE"):
            assert np.float32(text.rstrip("f")) == value, key
        else:
            assert text == str(value), key


def test_every_block_is_checked() -> None:
    """Not only the first: a state that is absent or misaligned."""
    installed(("gcc",))
    plan, library = load("state")
    memory = (ctypes.c_char * (plan.memory_bytes + 64))()
    arena = ctypes.addressof(memory)
    arena += -arena % 16
    state = arena + -(-plan.arena_bytes // 16) * 16
    for blocks, status in (((arena, None), 1), ((None, state), 1), ((arena, state + 1), 2), ((arena + 8, state), 2)):
        assert library.state_run(*map(ctypes.c_void_p, blocks), None, None) == status


def test_reset() -> None:
    installed(("gcc",))
    plan, library = load("state")
    memory = (ctypes.c_char * (plan.state_bytes + 32))(*b"\xa5" * (plan.state_bytes + 32))
    base = ctypes.addressof(memory)
    base += -base % 16
    library.state_reset(ctypes.c_void_p(base))
    values = [ctypes.string_at(base + plan.places[t].offset, t.nbytes) for t in plan.variables]
    assert values == [bytes([249] * 6), bytes(20)]
