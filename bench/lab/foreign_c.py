"""C that other compilers of models make, counted as twinfer's is: emx-onnx-cgen's and bakenn's.

``python -m twinfer.bench.lab.foreign_c kws_int8 … --target riscv32imafc --target cortex-m4 --json FILE`` gives both the
same model, builds their C for the core at -O3 with twinfer's harness, and counts one inference. Both are packages of
PyPI. emx-onnx-cgen reads ONNX; it computes an int8 model in floats, so outputs may be off by roundings. bakenn reads
.tflite of int8, and calls CMSIS-NN, which it brings along, on Cortex-M4; it has no SOFTMAX, so models end before that.
``most`` of a row is the largest difference of an output, ``error`` what ended a program.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from twinfer.aot.build.architecture import HARNESS
from twinfer.aot.build.firmware import Firmware, build, linker_scripts
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import Card, find
from twinfer.aot.print.emit import Project, emit
from twinfer.bench.models.onnx_graph import onnx_graph
from twinfer.bench.models.source import load
from twinfer.converter.table import with_versions
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.tools import run_tool
from twinfer.runtime.write.tflite import write

#: For temporaries that are taken from the heap: of picolibc, which wants to know where it lies, or of newlib.
_HEAP = 3 << 20

_RIG = """#include "harness.h"

void model(const unsigned char *input, unsigned char *output);
void *_sbrk(int bytes);

__asm__(".bss\\n.globl __heap_start, __heap_end\\n.balign 16\\n__heap_start: .zero {heap}\\n__heap_end:\\n.text");
extern char __heap_start[];

void *_sbrk(int bytes) {{
    static int taken;
    void *const block = __heap_start + taken;
    taken += bytes;
    return taken > {heap} ? (void *)-1 : block;
}}

unsigned char tw_arena[1];
static unsigned char input[{nbytes_in}] __attribute__((aligned(16))), output[{nbytes_out}] __attribute__((aligned(16)));

static int run(void *arena, const void *const *inputs, void *const *outputs) {{
    (void)arena;
    (void)inputs;
    (void)outputs;
    model(input, output);
    return 0;
}}

static const tw_span given = {{input, sizeof input}}, made = {{output, sizeof output}};
const tw_model tw_models[] = {{{{run, 0, 0, &given, &made, 0, 0, 0, 1, 1, 0, 0}}, {{0}}}};
const uint32_t tw_model_count = 1;
"""

#: A model's function ``model`` by the one that bakenn writes.
_BAKENN = """#include "bknn_m.h"

void model(const unsigned char *input, unsigned char *output);

void model(const unsigned char *input, unsigned char *output) {
    static uint8_t arena[BKNN_M_ARENA_SIZE + 1] __attribute__((aligned(BKNN_M_ARENA_ALIGNMENT)));
    bknn_m_infer(arena, (const int8_t *)input, (int8_t *)output);
}
"""


def emx(graph: Graph) -> dict[str, str]:
    """Files of the C that emx-onnx-cgen makes of a model; ToolError if it fails."""
    with tempfile.TemporaryDirectory(prefix="twinfer-") as work:
        (Path(work) / "m.onnx").write_bytes(onnx_graph(graph))
        run_tool([sys.executable, "-m", "emx_onnx_cgen", "compile", "m.onnx", "m.c"], Path(work))
        return {"model.c": (Path(work) / "m.c").read_text(encoding="utf-8")}


def bakenn(graph: Graph) -> dict[str, str]:
    """Files of the C that bakenn makes of a model of int8 for Cortex-M4 over CMSIS-NN, as it advises for speed."""
    package: Any = import_module("bakenn")
    options = package.CBackendOptions(
        kernel_policy=package.KernelPolicy.STATIC_PRIORITY, enable_cmsis_nn=True, target=package.CORTEX_M4
    )
    with tempfile.TemporaryDirectory(prefix="twinfer-") as work:
        (Path(work) / "m.tflite").write_bytes(write(with_versions(graph)))
        package.compile_tflite(f"{work}/m.tflite", f"{work}/c", name="m", target="cortex-m4", backend_options=options)
        paths = [path for path in sorted(Path(work, "c").rglob("*")) if path.suffix in (".c", ".h")]
        return {"model.c": _BAKENN, **{path.name: path.read_text(encoding="utf-8") for path in paths}}


def _unsigned(value: Array) -> Array:
    """Int8 as the ONNX file has it, 128 more, in the same bytes; others as they are."""
    return (value.view(np.uint8) ^ 128).view(np.int8) if value.dtype == np.int8 else value


class Compiler(NamedTuple):
    """``files`` makes the C of a model; ``takes``: whether it can, for a target; ``turned``: values as its C has them,
    and back."""

    files: Callable[[Graph], dict[str, str]]
    takes: Callable[[Graph, Card], bool]
    turned: Callable[[Array], Array]


#: By the names of their packages.
COMPILERS = {
    "emx-onnx-cgen": Compiler(emx, lambda graph, card: True, _unsigned),
    "bakenn": Compiler(
        bakenn, lambda graph, card: card.name == "cortex-m4" and graph.inputs[0].type == "INT8", lambda value: value
    ),
}


def foreign(project: Project, sources: Mapping[str, str], card: Card) -> Firmware:
    """A program of that C in the place of the project's own; its function is ``model`` of one input and one output."""
    (given,), (made,) = project.plan.graph.inputs, project.plan.graph.outputs
    architecture = card.architecture
    files = {name: architecture.read(name) for name in (*HARNESS, *architecture.program)}
    files |= {**sources, "rig.c": _RIG.format(nbytes_in=given.nbytes, nbytes_out=made.nbytes, heap=_HEAP)}
    code = ("rig.c", "harness.c", *(name for name in sources if name.endswith(".c")), *architecture.program)
    words = (*card.flags, "-O3", "-I.", *architecture.linking(card.toolchain), *code)
    return Firmware(card.toolchain.link({**files, **linker_scripts(card)}, words), card, (project,), words)


def compared(name: str, card: Card) -> list[dict[str, Any]]:
    """Instructions of one inference by twinfer's C and by that of each compiler that takes the model."""
    graph = without_softmax(load(name).graph)
    project = emit(make_plan(graph, card.target), "m")
    inputs = random_inputs(project.plan.graph)
    (own,) = run_jobs(build(project, card), [Job(inputs)])
    rows: list[dict[str, Any]] = []
    for package, (files, takes, turned) in COMPILERS.items():
        if not takes(graph, card):
            continue
        job = Job([turned(value) for value in inputs])
        row: dict[str, Any] = {"model": name, "target": card.name, "compiler": package, "own": own.counts[0]}
        rows.append(row)
        firmware = foreign(project, files(graph), card)
        try:
            (other,) = run_jobs(firmware, [job], patience=1200)
        except ToolError as error:
            row["error"] = str(error).splitlines()[-1]
            continue
        pairs = zip(own.outputs, map(turned, other.outputs), strict=True)
        row["other"] = other.counts[0]
        row["most"] = max(float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max()) for a, b in pairs)
    return rows


def without_softmax(graph: Graph) -> Graph:
    """The model up to the SOFTMAX that it may end with."""
    last = graph.nodes[-1]
    return replace(graph, nodes=graph.nodes[:-1], outputs=(last.input(0),)) if last.op == "SOFTMAX" else graph


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--target", action="append", required=True)
    parser.add_argument("--json", required=True)
    arguments = parser.parse_args(argv)
    cards = [find(name) for name in arguments.target]
    rows = [row for card in cards for name in arguments.models for row in compared(name, card)]
    Path(arguments.json).write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
