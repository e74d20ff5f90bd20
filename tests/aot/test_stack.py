"""The stack: a bound from frames and calls, compared with what a run under QEMU writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiny
from cases import cases_of, graph_of
from hypothesis import given
from hypothesis import strategies as st
from needs import deep_but

from twinfer.aot.board.arm.architecture import ARCHITECTURE
from twinfer.aot.build import stack as stack_module
from twinfer.aot.build import toolchain
from twinfer.aot.build.depth import RISCV, THUMB, Function, StackBound, deepest, functions, thumb_taken
from twinfer.aot.build.firmware import build, run_function
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.sizes import image, image_sources, image_words
from twinfer.aot.build.stack import firmware_bound, read_bound, stack_bound, worst_bounds
from twinfer.aot.build.targets import Card, find
from twinfer.aot.print.emit import Project, emit
from twinfer.bench.models.builtin import builtin
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import Mode, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs

pytestmark = pytest.mark.usefixtures("board_tools")

CORES = ["cortex-m0", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55"]
MODES: tuple[Mode, ...] = ("compiled", "interpreted")

M4 = find("cortex-m4")
BUILDS = M4.toolchain.builds

#: Bytes of the frame of a program's function that hands a model its blocks.
WRAPPER = 32


def projects(graphs: dict[str, Graph], core: str) -> list[Project]:
    """The projects of the graphs in both modes."""
    card = find(core)
    plans = {name: make_plan(graph, card.target) for name, graph in graphs.items()}
    plans["by_rows"] = make_plan(tiny.rows().graph, card.target, Options(memory="rows"))
    return [emit(plan.printed(mode=mode), f"{name}_{mode}") for name, plan in plans.items() for mode in MODES]


def tiny_graphs() -> dict[str, Graph]:
    return {name: make().graph for name, make in tiny.MODELS.items()}


@pytest.mark.parametrize("core", deep_but(CORES, "cortex-m4"))
def test_mark_is_within_the_bound(core: str) -> None:
    emitted = projects({**tiny_graphs(), **({"digits": builtin()["digits_int8"]()} if core == M4.name else {})}, core)
    program = build(emitted, find(core))
    jobs = [Job(random_inputs(p.plan.graph), model=i, paint=True) for i, p in enumerate(emitted)]
    for i, (result, one) in enumerate(zip(run_jobs(program, jobs, count=False), emitted, strict=True)):
        bound = firmware_bound(program, model=i)
        assert not bound.unknown, one.name
        assert bound.bytes is not None
        assert 0 < result.stack_bytes <= bound.bytes, f"{one.name}: {bound.chain}"
        if not one.plan.chains:  # their pointers may lead to functions of the other mode, which are in the program, too
            slack = 128 if "tw_fully_connected_dsp_row" in bound.chain else 32  # not all layers call it
            assert bound.bytes <= result.stack_bytes + slack, f"{one.name}: the bound is loose: {bound.chain}"
        assert bound.chain[0] == run_function(one)


def test_what_a_toolchain_cannot_tell_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without frames, as of clang, and without instructions: no bound, the reason, and no error."""
    program = build([emit(make_plan(tiny.dense().graph, M4.target), "dense")], M4)
    told = firmware_bound(program).bytes  # no frame of it varies
    assert told

    def fail(*_: object) -> None:
        raise ToolError("this compiler tells no frames of functions")

    with monkeypatch.context() as patch:
        patch.setattr(type(M4.toolchain), "frames", fail)
        assert firmware_bound(program).bytes == told
    monkeypatch.setattr(Card, "architecture", replace(ARCHITECTURE, instructions=None))
    bound = firmware_bound(program)
    assert bound.bytes is None
    assert "reads no instructions" in bound.unknown[0]


def shapes_of_code() -> dict[str, tuple[Graph, Options]]:
    """Models by layers, by rows, of a table, with branches, with a reset that decodes, with an LSTM."""
    lstm = next(case for case in cases_of("UNIDIRECTIONAL_SEQUENCE_LSTM").values() if case.node.input(0).type == "INT8")
    return {
        "quantised": (builtin()["digits_int8"](), Options()),
        "rows": (tiny.rows().graph, Options(memory="rows")),
        "fed": (builtin()["digits_int8"](), Options(memory="rows", input_rows=True)),
        "table": (builtin()["digits_int8"](), Options(mode="interpreted")),
        "flow": (tiny.flow().graph, Options()),
        "decoded": (builtin()["digits_int8"](), Options(weights="huffman", decode="start")),
        "lstm": (graph_of(lstm.node), Options()),
    }


@pytest.mark.deep
@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m4", "cortex-m55"])
def test_what_headers_say_holds_in_every_build(core: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No run writes the stack deeper than STACK_BYTES in any build that it is stated for."""
    card = find(core)
    plans = {name: make_plan(graph, card.target, options) for name, (graph, options) in shapes_of_code().items()}
    emitted = [emit(plan, name) for name, plan in plans.items()]
    stated = {project.name: worst_bounds(project, card) for project in emitted}
    jobs = [Job(random_inputs(p.plan.graph), model=i, paint=True) for i, p in enumerate(emitted)]
    for key, (level, *more) in [(key, words) for key, builds in BUILDS.items() for words in builds]:
        monkeypatch.setattr(toolchain, "LEVELS", {"balanced": level})
        program = build(emitted, replace(card, flags=(*card.flags, *more)))
        for project, result in zip(emitted, run_jobs(program, jobs, count=False), strict=True):
            wrapper = 0 if run_function(project) == f"{project.name}_run" else 2 * WRAPPER if key == "O0" else WRAPPER
            assert 0 < result.stack_bytes <= (stated[project.name][key].bytes or 0) + wrapper, (project.name, key, more)


@given(st.data())
def test_the_deepest_chain_of_any_calls(data: st.DataObject) -> None:
    """All chains are walked here one by one; pointers lead to whatever has an address."""
    names = [f"f{i}" for i in range(6)]
    frames = [data.draw(st.sampled_from([None, *range(0, 64, 8)] if data.draw(st.integers(0, 9)) == 0 else
                                        [*range(0, 64, 8)])) for _ in names]  # fmt: skip
    calls = [data.draw(st.sets(st.sampled_from([*names[i + 1 :], "gone"] if i == 4 else names[i + 1 :] or ["gone"]),
                               max_size=3)) if i < 5 else set() for i in range(6)]  # fmt: skip
    indirect = [data.draw(st.booleans()) and i < 4 for i in range(6)]
    pointed = frozenset(data.draw(st.sets(st.sampled_from(names[4:]))))
    code = {n: Function(n, f, frozenset(c), p) for n, f, c, p in zip(names, frames, calls, indirect, strict=True)}

    def chains(name: str) -> Iterator[tuple[str, ...]]:
        yield (name,)
        own = code.get(name)
        if own is not None and own.frame is not None:
            for call in own.calls | (pointed if own.indirect else set()):
                yield from ((name, *rest) for rest in chains(call))

    every = list(chains("f0"))
    ends = {name for chain in every for name in chain}
    known = all(name in code and code[name].frame is not None for name in ends)
    known &= all(pointed or not code[name].indirect for name in ends if name in code)
    found = deepest(code, "f0", pointed)
    assert (found.bytes is None) == (not known) == bool(found.unknown)
    if known:
        assert found.bytes == max(sum(code[name].frame or 0 for name in chain) for chain in every)
        assert found.chain in every


@pytest.mark.parametrize("core", deep_but(CORES[::2], M4.name))
def test_frames_read_from_instructions_are_the_compilers(core: str) -> None:
    """So the frames of library functions, which can only be read from instructions, can be trusted."""
    card = find(core)
    for one in projects({"digits": builtin()["digits_int8"]()}, core):
        told = card.toolchain.frames(image_sources(one, card), image_words(one, card))
        listing = card.toolchain.listing(image(one, card))
        read = {name: function.frame for name, function in functions(listing, {}, THUMB).items()}
        both = told.keys() & read.keys()
        assert f"{one.name}_run" in both
        assert {name: read[name] for name in both} == {name: told[name] for name in both}


@pytest.mark.parametrize(
    ("instruction", "size"),
    [
        (("push", "{r4, r5, r6, lr}"), 16),
        (("stmdb", "sp!, {r4, r5, r6, r7, r8, r9, sl, fp, lr}"), 36),
        (("vpush", "{d8-d11}"), 32),
        (("vpush", "{s16}"), 4),
        (("sub", "sp, #80"), 80),
        (("sub.w", "sp, sp, #4096"), 4096),
        (("subw", "sp, sp, #4044"), 4044),
        (("str.w", "lr, [sp, #-4]!"), 4),
        (("strd", "r4, r5, [sp, #-16]!"), 16),
        (("str", "r0, [sp, #4]"), 0),
        (("add", "sp, #80"), 0),
        (("add", "r0, sp, #4"), 0),
        (("sub.w", "sp, sp, r3"), None),
        (("add", "sp, r7"), None),
    ],
)
def test_stack_taken(instruction: tuple[str, str], size: int | None) -> None:
    assert thumb_taken(*instruction) == size


def linked(source: str) -> tuple[Path, Mapping[str, int | None]]:
    """A program of one C file, and the compiler's report of its frames."""
    words = (*M4.flags, "-O2", "-nostartfiles", "-Wl,--entry=root", "library.c", "empty.c")
    sources = {"library.c": source, "empty.c": "typedef int none;\n"}
    return M4.toolchain.link(sources, words), M4.toolchain.frames(sources, words)


HEAD = "void use(volatile char *p) { *p = 1; }\n__attribute__((noinline)) "


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (
            HEAD + "int deep(int n) { volatile char a[9]; use(a); return n ? deep(n - 1) + a[1] : 0; }",
            "deep calls itself",
        ),
        (HEAD + "int deep(int n) { volatile char a[n]; use(a); return a[0]; }", "deep: its frame is not known"),
    ],
)
def test_no_bound_where_there_is_none(source: str, why: str) -> None:
    path, told = linked(source + "\nint root(int n) { return 1 + deep(n); }")
    bound = read_bound(path, "root", M4, told)
    assert bound.bytes is None
    assert bound.unknown == (why,)


def test_pointers_lead_to_all_whose_address_is_taken() -> None:
    """The deepest of them counts; a function that nothing points to does not."""
    one = "__attribute__((noinline)) int f{0}(void) {{ volatile char a[{0}] = {{1}}; return a[0]; }}\n"
    source = "".join(one.format(size) for size in (100, 400, 900))
    source += "int (*const table[])(void) = {f100, f400};\nint unused(void) { return 1 + f900(); }\n"
    path, told = linked(source + "int root(volatile int i) { return 1 + table[i](); }")
    bound = read_bound(path, "root", M4, told)
    assert bound.chain[:2] == ("root", "f400")
    assert bound.bytes is not None
    assert 400 < bound.bytes < 900
    assert read_bound(path, "root", M4, told, lambda name: name == "f100").chain[:2] == ("root", "f100")


def test_a_function_that_is_not_there() -> None:
    path, told = linked("int root(void) { return 1; }")
    assert read_bound(path, "other", M4, told).unknown == ("other: not in the image",)


def test_libraries_are_part_of_the_chain() -> None:
    """Software floats on a core without a floating-point unit."""
    card = find("cortex-m0")
    bound = stack_bound(emit(make_plan(tiny.conv().graph, card.target), "conv"), card)
    assert bound.chain[:2] == ("conv_run", "conv_0_conv_2d")
    assert bound.chain[2].startswith("__aeabi_f")


def test_what_a_toolchain_or_a_board_cannot_say_is_told() -> None:
    """A compiler that tells no frames, and a folder that reads no instructions."""
    project = emit(tiny.dense(), "m")
    dumb = replace(M4.architecture, instructions=None)
    card: Any = SimpleNamespace(flags=M4.flags, toolchain=M4.toolchain, architecture=dumb)
    with pytest.raises(ToolError, match="reads no instructions, so that no stack is known"):
        stack_bound(project, card)
    with pytest.raises(ToolError, match="armclang tells no frames of functions"):
        toolchain.Gnu("armclang", "").frames({}, ())
    unread = replace(M4.architecture, instructions=replace(THUMB, stack_taken=lambda *_: None))

    class Silent(toolchain.Gnu):
        frames = toolchain.Toolchain.frames

    silent = Silent(M4.compiler, M4.binutils)
    card = SimpleNamespace(flags=M4.flags, toolchain=silent, architecture=unread)
    bound = stack_bound(project, card)
    assert bound.bytes is None
    assert bound.unknown[-1] == f"{M4.compiler} tells no frames of functions"


def test_a_bit_field_is_no_branch() -> None:
    """A text by objdump of constants between two instructions, which it takes for instructions."""
    lines = ("0:\tbfcsel\t0, 7fff86e <g-0x792>, 4, eq", "4:\tbfc\tr3, #0, #8", "8:\tbl\t0 <h>")
    listing = "\n".join(["00000000 <f>:", *lines])
    assert functions(listing, {}, THUMB)["f"].calls == {"h"}


@pytest.mark.deep
@pytest.mark.parametrize("mode", MODES)
def test_every_model_has_a_bound_on_helium(mode: Mode) -> None:
    card = find("cortex-m55")
    for name in ("kws_int8", "vww_int8"):
        project = emit(make_plan(builtin()[name](), card.target).printed(mode=mode), name)
        assert stack_bound(project, card).bytes is not None


@pytest.mark.parametrize("deeper", ["m_run", "m_reset"])
@pytest.mark.parametrize("unknown", [None, 0, 1])
def test_reset_and_every_build_count(deeper: str, unknown: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of run and reset, and of all builds, the deepest; if one build has no bound, there is none."""
    monkeypatch.setattr(
        stack_module, "read_bound", lambda path, root, *_: StackBound(300 if root == deeper else 100, (root,))
    )
    project = emit(tiny.state(), "m")
    assert stack_bound(project, M4) == StackBound(300, (deeper,))
    every = [build for builds in BUILDS.values() for build in builds]
    bounds = {build: StackBound(100 + 7 * (k * 5 % 6), (f"run {k}",)) for k, build in enumerate(every)}
    if unknown is not None:
        bounds[every[unknown]] = StackBound(None, (), ("it calls itself",))
    monkeypatch.setattr(stack_module, "stack_bound", lambda project, card, build: bounds[build])
    found = worst_bounds(replace(project, common={"asm.h": "TW_NO_ASM"}), M4)
    assert found.keys() == BUILDS.keys()
    for key, builds in BUILDS.items():
        deepest_of = max((bounds[build] for build in builds), key=lambda bound: bound.bytes or 0)
        assert found[key] == (bounds[every[unknown]] if key == "" and unknown is not None else deepest_of)


def test_code_without_assembly_is_built_without_its_macro(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the stack with -DTW_NO_ASM is that of the same levels."""
    built = []
    monkeypatch.setattr(
        stack_module, "stack_bound", lambda project, card, build: built.append(build) or StackBound(len(build), ())
    )
    assert {key: bound.bytes for key, bound in worst_bounds(emit(tiny.state(), "m"), M4).items()} == {
        "": 2, "NO_ASM": 1, "OG": 1, "O0": 1,
    }  # fmt: skip
    assert sorted(built) == sorted([*BUILDS[""], ("-Og",), ("-O0",)])


def test_riscv_jumps_into_its_own_code_lead_nowhere_else() -> None:
    """picolibc's memset jumps to the pc and a sum; any other register may hold anything."""
    listing = """
00000010 <memset>:
  10:\tadd\tsp,sp,-16
  12:\tauipc\tt0,0x0
  16:\tadd\ta3,a3,t0
  1a:\tmv\tt0,ra
  1c:\tjalr\ta3
  1e:\tret

00000020 <other>:
  20:\tauipc\tt0,0x0
  24:\tadd\ta4,a4,t0
  28:\tjr\ta3
"""
    found = functions(listing, {}, RISCV)
    assert found["memset"] == Function("memset", 16, frozenset(), indirect=False)
    assert found["other"].indirect
