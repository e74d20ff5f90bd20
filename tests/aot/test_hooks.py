"""What runs between layers: the hook, runs of some layers, the table of layers, and what functions return."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import tiny
from needs import ROOT, need_tools

from twinfer.aot.print.blocks import Memory
from twinfer.aot.print.emit import emit
from twinfer.bench.models.builtin import builtin
from twinfer.runtime.graph import Array
from twinfer.runtime.options import Mode, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan, Region
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import GENERIC
from twinfer.runtime.tools import write_files

OK, NO_MEMORY, MISALIGNED, NO_INPUT, NOT_BEGUN, CANCELLED, NO_LAYER = range(7)

#: The hook keeps the numbers of the layers, and cancels before layer ``stop``.
HOOK = """
extern int32_t calls[], count, stop;
static inline int hook(int32_t layer) { calls[count++ % 4096] = layer; return layer == stop; }
#define TW_HOOK(layer) hook(layer)
"""
CONFIG = f"#ifndef CONFIG_H\n#define CONFIG_H\n#include <stdint.h>\n{HOOK}\n#endif\n"


class Layer(ctypes.Structure):
    """tw_layer of kernels/run/api.h."""

    _fields_ = (
        *((name, ctypes.c_char_p) for name in ("op", "kernel", "output")),
        ("macs", ctypes.c_uint64),
        ("type", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_int32)),
        ("rank", ctypes.c_int32),
        ("with_", ctypes.c_int32),
    )


def digits(mode: Mode, **options: bool) -> Plan:
    graph = builtin()["digits_int8"]()
    return make_plan(graph, GENERIC, Options(memory="rows", mode=mode, **options))  # type: ignore[arg-type]


def plan_of(model: str, mode: Mode) -> Plan:
    if model in ("fed", "lent"):
        return digits(mode, **{"input_rows" if model == "fed" else "input_in_place": True})
    return {**tiny.MODELS, **tiny.BY_ROWS}[model]().printed(mode=mode)


MODELS = [*tiny.MODELS, *tiny.BY_ROWS, "fed", "lent"]
EACH = pytest.mark.parametrize(("model", "mode"), list(product(MODELS, get_args(Mode))))


@cache
def plans() -> dict[str, Plan]:
    return {f"{model}_{mode}": plan_of(model, mode) for model, mode in product(MODELS, get_args(Mode))}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """All models with the hook and with runs of some layers, in one library."""
    need_tools("gcc")
    folder, sources = tmp_path_factory.mktemp("hooks"), ["int32_t calls[4096], count, stop = -1;"]
    for name, plan in plans().items():
        write_files(folder, emit(plan, name).files)
        sources += [f'#include "{name}{end}.c"' for end in ("", "_data", "_layers")]
    sources += ["const char *text(int status);", "const char *text(int status) { return tw_status_text(status); }"]
    (folder / "config.h").write_text(CONFIG)
    (folder / "all.c").write_text("#include <stdint.h>\n" + "\n".join(sources))
    words = ["-std=c11", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    command = [
        "gcc",
        *words,
        "-DTW_RUN_LAYERS",
        '-DTW_CONFIG="config.h"',
        f"-I{folder}",
        "all.c",
        "-o",
        "all.so",
        "-lm",
    ]
    subprocess.run(command, cwd=folder, check=True, timeout=1200)
    return ctypes.CDLL(str(folder / "all.so"))


class Model:
    """A model in the library, over memory of its own; ``stop`` is the layer before which the hook cancels."""

    def __init__(self, library: ctypes.CDLL, name: str) -> None:
        self.library, self.name, self.plan = library, name, plans()[name]
        self.inputs = random_inputs(self.plan.graph)
        memory = Memory(self.plan)
        self.memory = {region: aligned(memory.nbytes(region)) for region in memory.blocks}
        self.blocks = [at(block) for block in self.memory.values()]
        if self.plan.state_bytes:
            getattr(library, f"{name}_reset")(*(at(self.memory[region]) for region in memory.start_regions))

    def call(self, what: str, *more: Any, stop: int = -1) -> int:
        ctypes.c_int32.in_dll(self.library, "count").value = 0
        ctypes.c_int32.in_dll(self.library, "stop").value = stop
        return int(getattr(self.library, f"{self.name}_{what}")(*more))

    @property
    def hooked(self) -> list[int]:
        """The layers that the hook was called for in the last call."""
        count = ctypes.c_int32.in_dll(self.library, "count").value
        return list((ctypes.c_int32 * 4096).in_dll(self.library, "calls"))[:count]

    def run(self, stop: int = -1) -> tuple[int, list[Array]]:
        fed = [None if t.data is not None else at(v) for t, v in zip(self.plan.graph.inputs, self.inputs, strict=True)]
        outputs = [aligned(max(t.nbytes, 1)) for t in self.plan.graph.outputs]
        status = self.call("run", *self.blocks, pointers(fed), pointers([at(y) for y in outputs]), stop=stop)
        return status, [y[: t.nbytes] for y, t in zip(outputs, self.plan.graph.outputs, strict=True)]

    def layers(self, first: int, end: int, stop: int = -1) -> int:
        borrowed = self.plan.borrowed
        lent = [at(self.inputs[self.plan.graph.inputs.index(borrowed)])] if borrowed else []
        return self.call("run_layers", *self.blocks, *lent, ctypes.c_int32(first), ctypes.c_int32(end), stop=stop)

    def give(self) -> None:
        """Inputs to where a run of some layers expects them."""
        if self.plan.fed:
            assert self.layers(0, 1) == NOT_BEGUN
            assert self.call("begin", self.blocks[0]) == OK
            assert self.layers(0, 1) == NO_INPUT
            for row in self.inputs[0].reshape(self.plan.graph.inputs[0].shape[1], -1):
                last = self.call("push_row", self.blocks[0], at(row), stop=len(self.plan.fed.layers) - 1)
                assert last == -CANCELLED, "the row is not taken"
                self.call("push_row", self.blocks[0], at(row))
            return
        for tensor, value in zip(self.plan.graph.inputs, self.inputs, strict=True):
            if tensor in self.plan.places and self.plan.places[tensor].region != Region.INPUT:
                self.place(tensor)[:] = value.reshape(-1).view(np.uint8)

    def place(self, tensor: Any) -> Array:
        """The bytes of a tensor in memory."""
        place = self.plan.places[tensor]
        return self.memory[place.region][place.offset : place.offset + tensor.nbytes]

    @property
    def ends(self) -> list[int]:
        """The layers before which a straight program asks the hook."""
        return sorted(set(self.table("with_")))

    def table(self, field: str) -> list[Any]:
        count = len(self.plan.steps)
        table = (Layer * count).in_dll(self.library, f"{self.name}_layers") if count else []
        return [getattr(row, field) for row in table]


def aligned(nbytes: int) -> Array:
    """Bytes at a multiple of 64, full of rubbish."""
    whole = np.full(nbytes + 64, 0xA5, np.uint8)
    return whole[-whole.ctypes.data % 64 :][:nbytes]


def at(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def pointers(listed: Sequence[ctypes.c_void_p | None]) -> Any:
    return (ctypes.c_void_p * max(len(listed), 1))(*listed)


def outputs_of(plan: Plan) -> list[bytes]:
    session = Session(plan)
    session.feed(random_inputs(plan.graph))
    session.run()
    return [y.tobytes() for y in session.outputs()]


@EACH
def test_hook(model: str, mode: Mode, library: ctypes.CDLL) -> None:
    """It is called once before every layer, or before the last of those that run together; it ends a run anywhere."""
    runs = Model(library, f"{model}_{mode}")
    assert runs.run()[0] == OK
    asked = runs.hooked
    if runs.plan.straight:
        assert asked == runs.ends
    for i, stop in enumerate(asked):
        again = Model(library, runs.name)
        assert again.run(stop)[0] == CANCELLED
        assert again.hooked == asked[: asked.index(stop) + 1], i


@EACH
def test_layer_by_layer(model: str, mode: Mode, library: ctypes.CDLL) -> None:
    """Runs of one layer each, of two, and of all give the bits of the interpreter in place."""
    want = outputs_of(plans()[f"{model}_{mode}"])
    count = len(plans()[f"{model}_{mode}"].steps)
    for at_once in {1, 2, max(count, 1)}:
        runs = Model(library, f"{model}_{mode}")
        runs.give()
        for first in range(0, count, at_once):
            assert runs.layers(first, min(first + at_once, count)) == OK
        got = [runs.place(t).tobytes() if t in runs.plan.places else None for t in runs.plan.graph.outputs]
        lent = runs.plan.borrowed
        pairs = [pair for t, *pair in zip(runs.plan.graph.outputs, got, want, strict=True) if t is not lent]
        assert all(a == b for a, b in pairs if a is not None)


@EACH
def test_layers_that_are_refused(model: str, mode: Mode, library: ctypes.CDLL) -> None:
    runs = Model(library, f"{model}_{mode}")
    count = len(runs.plan.steps)
    runs.give()
    assert runs.layers(count, count) == OK
    for first, end in ((-1, 0), (0, count + 1), (1, 0)):
        assert runs.layers(first, end) == NO_LAYER
    if runs.ends:
        assert runs.layers(0, count, stop=runs.ends[-1]) == CANCELLED
    runs.blocks[0] = ctypes.c_void_p(None)
    assert runs.layers(0, count) == NO_MEMORY
    runs.blocks[0] = at(next(iter(runs.memory.values()))[1:])
    assert runs.layers(0, count) == MISALIGNED


@EACH
def test_table_of_layers(model: str, mode: Mode, library: ctypes.CDLL) -> None:
    runs = Model(library, f"{model}_{mode}")
    steps = runs.plan.steps
    assert [op.decode() for op in runs.table("op")] == [step.node.op for step in steps]
    assert runs.table("macs") == [step.call.macs for step in steps]
    shapes = [tuple(shape[:rank]) for shape, rank in zip(runs.table("shape"), runs.table("rank"), strict=True)]
    assert shapes == [step.call.written[0].shape for step in steps]
    chained = {layer.step: chain.layers[-1].step for chain in runs.plan.chains.values() for layer in chain.layers}
    if runs.plan.straight:
        assert [steps[i] for i in runs.table("with_")] == [chained.get(step, step) for step in steps]


def test_every_status_has_a_text(library: ctypes.CDLL) -> None:
    library.text.restype = ctypes.c_char_p
    texts = [library.text(status) for status in (*range(NO_LAYER + 1), -NO_MEMORY, -NO_INPUT)]
    assert len(set(texts)) == len(texts)
    assert b"outside" in library.text(16), "guard mode"


CALLS = """
#include "lent_compiled.h"
#include "flow_compiled.h"
static lent_compiled_arena_t arenas[3];
static flow_compiled_state_t states[3];
int main(void) {
    static int8_t in[LENT_COMPILED_INPUT_0_SIZE], out[LENT_COMPILED_OUTPUT_0_SIZE];
    for (int i = 0; i < 3; ++i) if (((uintptr_t)&arenas[i] | (uintptr_t)&states[i]) % 16) return 1;
    return lent_compiled_run_1(&arenas[1], in, out);
}
"""


@pytest.mark.parametrize("compiler", ["gcc -std=c11", "g++ -std=c++11", "clang++ -std=c++20"])
def test_types(compiler: str, tmp_path: Path) -> None:
    """Arrays of arenas and states are aligned; a typed run takes buffers of the input's and the output's type."""
    need_tools(compiler.split()[0])
    for name in ("lent_compiled", "flow_compiled"):
        write_files(tmp_path, emit(plans()[name], name).files)
    longest = "a_name_" + "as_long_as_can_be_" * 3
    write_files(tmp_path, emit(plans()["dense_compiled"], longest).files)
    (tmp_path / "main.cpp").write_text(f'#include "{longest}.h"{CALLS}')
    warnings = ("-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")
    language = [] if "++" in compiler else ["-x", "c"]
    command = [*compiler.split(), *warnings, *language, "main.cpp", "-c", "-o", "main.o"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=1200)
    sources = [f"lent_compiled{end}.c" for end in ("", "_data")]
    subprocess.run(["gcc", "main.o", *sources, "-lm", "-o", "main"], cwd=tmp_path, check=True, timeout=1200)
    subprocess.run([tmp_path / "main"], check=True, timeout=1200)


def test_examples_of_the_docs(tmp_path: Path) -> None:
    """What docs/firmware.md shows compiles; both of its headers, one after the other, go into a build of kws."""
    need_tools("arm-none-eabi-gcc")
    blocks = re.findall(r"```c\n(.*?)```", (ROOT / "docs" / "firmware.md").read_text(encoding="utf-8"), re.DOTALL)
    placed, hooked, program, loop = blocks[:4]
    plan = make_plan(builtin()["kws_int8"](), GENERIC)
    write_files(tmp_path, emit(plan, "kws").files)
    (tmp_path / "my_config.h").write_text(f"#ifndef MINE\n#define MINE\n{placed}{hooked}#endif\n")
    called = (
        f"void do_something_else(void);\nvoid loop(void);\nstatic kws_arena_t arena;\nvoid loop(void) {{\n{loop}}}\n"
    )
    declared = "void measure(const int8_t *in, int8_t *out);\n"
    (tmp_path / "main.c").write_text(program.replace("\nvoid measure", f"\n{declared}{called}\nvoid measure"))
    flags = ["-std=c11", "-mcpu=cortex-m4", "-mthumb", "-Wall", "-Wextra", "-Wno-array-parameter", "-Werror", "-c"]
    words = [*flags, '-DTW_CONFIG="my_config.h"', "-I.", "-DTW_RUN_LAYERS"]
    command = ["arm-none-eabi-gcc", *words, "main.c", "kws.c", "kws_data.c", "kws_static.c"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=1200)
    said = subprocess.run(
        ["arm-none-eabi-objdump", "-h", "kws.o"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert {".ram_code", ".itcm"} <= set(said.stdout.split())
