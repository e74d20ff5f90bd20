"""C that another compiler of models makes, counted as twinfer's is: emx-onnx-cgen's, of the same model in ONNX.

``python -m twinfer.bench.lab.foreign_c kws_int8 … --target riscv32imafc --json FILE`` makes the ONNX file, has
emx-onnx-cgen (of PyPI) compile it, builds its C for the core at -O3 with twinfer's harness, and counts one inference
of each. Of an int8 model, which that compiler computes in floats, outputs may be off by roundings: ``most`` is the
largest difference.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twinfer.aot.build.architecture import HARNESS
from twinfer.aot.build.firmware import Firmware, build, linker_scripts
from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import Card, find
from twinfer.aot.print.emit import Project, emit
from twinfer.bench.models.onnx_graph import onnx_graph
from twinfer.bench.models.source import load
from twinfer.kernels_c.ffi_build import ARITHMETIC
from twinfer.runtime.graph import Array
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.tools import run_tool

#: Its temporaries are taken from the heap, of which picolibc wants to know where it lies.
_HEAP = 1 << 23

_RIG = """#include "harness.h"

void model(const unsigned char *input, unsigned char *output);

__asm__(".bss\\n.globl __heap_start, __heap_end\\n.balign 16\\n__heap_start: .zero {heap}\\n__heap_end:\\n.text");

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


def emx(model: bytes) -> str:
    """The C that emx-onnx-cgen makes of an ONNX file; ToolError if it fails."""
    with tempfile.TemporaryDirectory(prefix="twinfer-") as work:
        (Path(work) / "m.onnx").write_bytes(model)
        run_tool([sys.executable, "-m", "emx_onnx_cgen", "compile", "m.onnx", "m.c"], Path(work))
        return (Path(work) / "m.c").read_text(encoding="utf-8")


def foreign(project: Project, text: str, card: Card) -> Firmware:
    """A program of that C in the place of the project's own; its function is ``model`` of one input and one output."""
    (given,), (made,) = project.plan.graph.inputs, project.plan.graph.outputs
    architecture = card.architecture
    files = {name: architecture.read(name) for name in (*HARNESS, *architecture.program)}
    files |= {"model.c": text, "rig.c": _RIG.format(nbytes_in=given.nbytes, nbytes_out=made.nbytes, heap=_HEAP)}
    code = ("rig.c", "model.c", "harness.c", *architecture.program)
    words = (*card.flags, "-O3", *ARITHMETIC, *architecture.linking(card.toolchain), *code)
    return Firmware(card.toolchain.link({**files, **linker_scripts(card)}, words), card, (project,), words)


def compared(name: str, card: Card) -> dict[str, Any]:
    """Instructions of one inference by twinfer's C and by the other's."""
    graph = load(name).graph
    project = emit(make_plan(graph, card.target), "m")
    inputs = random_inputs(project.plan.graph)
    (own,) = run_jobs(build(project, card), [Job(inputs)])
    told = foreign(project, emx(onnx_graph(graph)), card)
    (other,) = run_jobs(told, [Job([_unsigned(value) for value in inputs])], patience=1200)
    pairs = zip(own.outputs, map(_unsigned, other.outputs), strict=True)
    most = max(float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max()) for a, b in pairs)
    return {"model": name, "target": card.name, "own": own.counts[0], "emx": other.counts[0], "most": most}


def _unsigned(value: Array) -> Array:
    """Int8 as the ONNX file has it, 128 more, in the same bytes; others as they are."""
    return (value.view(np.uint8) ^ 128).view(np.int8) if value.dtype == np.int8 else value


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--target", default="riscv32imafc")
    parser.add_argument("--json", required=True)
    arguments = parser.parse_args(argv)
    rows = [compared(name, find(arguments.target)) for name in arguments.models]
    Path(arguments.json).write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
