"""C of other compilers of models, built with twinfer's harness and counted."""

from __future__ import annotations

import numpy as np
import pytest
import tiny
from needs import need_tools

from twinfer.aot.build.runner import Job, run_jobs
from twinfer.aot.build.targets import find
from twinfer.aot.print.emit import emit
from twinfer.bench.lab import foreign_c
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.inputs import random_inputs

CARD = find("riscv32imafc")

#: Writes the first bytes of the input, turned over; takes memory and gives it back.
C = """#include <stdlib.h>
void model(const unsigned char *input, unsigned char *output);
void model(const unsigned char *input, unsigned char *output) {
    unsigned char *copy = malloc(1000);
    if (copy == NULL) return;
    for (int i = 0; i < %d; ++i) copy[i] = input[i] ^ 255;
    for (int i = 0; i < %d; ++i) output[i] = copy[i];
    free(copy);
}
"""


@pytest.fixture(autouse=True)
def need_core(kept_builds: None) -> None:
    need_tools(CARD.compiler, CARD.emulator)


def test_c_of_another_compiler_is_run_and_counted() -> None:
    project = emit(make_plan(tiny.dense().graph, CARD.target), "m")
    (given,), (made,) = project.plan.graph.inputs, project.plan.graph.outputs
    size = min(given.nbytes, made.nbytes)
    inputs = random_inputs(project.plan.graph)
    (told,) = run_jobs(foreign_c.foreign(project, {"model.c": C % (size, size)}, CARD), [Job(inputs)])
    assert told.outputs[0].tobytes()[:size] == bytes(255 - byte for byte in inputs[0].tobytes()[:size])
    assert 10 * size < told.counts[0] < 10_000


def test_the_row_of_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of the ONNX file are 128 more, so outputs that differ by nothing are a difference of 0."""
    constant = "void model(const unsigned char *input, unsigned char *output); void model(const unsigned char *input, "
    constant += "unsigned char *output) { (void)input; for (int i = 0; i < 10; ++i) output[i] = 128; }"
    compilers = {
        "emx-onnx-cgen": foreign_c.COMPILERS["emx-onnx-cgen"]._replace(files=lambda graph: {"model.c": constant})
    }
    monkeypatch.setattr(foreign_c, "COMPILERS", compilers)
    (row,) = foreign_c.compared("digits_int8", CARD)
    assert row["other"] < 100 < 500_000 < row["own"]
    assert row["most"] == np.abs(outputs().astype(int)).max()


def outputs() -> np.ndarray:
    """Those of digits on this computer."""
    from twinfer.bench.measure.embedded import host_outputs
    from twinfer.bench.models.source import load

    graph = foreign_c.without_softmax(load("digits_int8").graph)
    return host_outputs(graph, random_inputs(graph))[0]
