"""From a file to the first inference: importing, reading, planning, writing C, and a whole call with small tensors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
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


FIRST = "import sys, numpy, twinfer; twinfer.Interpreter(sys.argv[1]).allocate_tensors()"


@pytest.fixture(params=["kws_int8", "vww_int8"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A model's file."""
    path = tmp_path / f"{request.param}.tflite"
    path.write_bytes(load(request.param).content)
    return path


def bench_first_interpreter(benchmark: Any, file: Path) -> None:
    """A whole process, with the start of Python and numpy: compare with ``import numpy``."""
    benchmark.group = "start of Python"
    benchmark.pedantic(
        subprocess.run, ([sys.executable, "-c", FIRST, str(file)],), {"check": True}, rounds=10, warmup_rounds=2
    )


def bench_read_and_prepare(benchmark: Any, file: Path) -> None:
    """A warm process."""
    benchmark.group = "read and prepare"
    benchmark(lambda: Interpreter(str(file)).allocate_tensors())


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
