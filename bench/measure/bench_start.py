"""From a file to the first inference: importing, reading, planning, writing C, and a whole call with small tensors."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from twinfer.aot.print.emit import emit
from twinfer.bench.models.source import Source, load
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.tflite import read
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter


@pytest.fixture(scope="module")
def source() -> Source:
    return load("vww_int8")


@pytest.mark.parametrize("what", ["pass", "import numpy", "import twinfer", "import twinfer; twinfer.Interpreter"])
def bench_import(benchmark: Any, what: str) -> None:
    benchmark.group = "start of Python"
    benchmark.pedantic(subprocess.run, ([sys.executable, "-c", what],), {"check": True}, rounds=10)


def bench_read(benchmark: Any, source: Source) -> None:
    content = source.content
    benchmark(read, content)


def bench_plan(benchmark: Any, source: Source) -> None:
    benchmark(make_plan, source.graph)


def bench_emit(benchmark: Any, source: Source) -> None:
    plan = make_plan(source.graph)
    benchmark(lambda: emit(plan, "model").files)


def bench_set_invoke_get(benchmark: Any) -> None:
    graph = load("digits_int8").graph
    model = Interpreter.from_graph(graph)
    model.allocate_tensors()
    (value,) = random_inputs(graph)
    x, y = model.get_input_details()[0]["index"], model.get_output_details()[0]["index"]

    def whole() -> None:
        model.set_tensor(x, value)
        model.invoke()
        model.get_tensor(y)

    benchmark(whole)
