"""Suites for pytest-benchmark, ``make bench``: one inference, from a file to the first of them, the loop in Python."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twinfer.aot.build.compiled import CompiledModel
from twinfer.aot.print.emit import emit
from twinfer.bench.measure.turns import interleave
from twinfer.bench.models.source import Source, builtin_names, load
from twinfer.bench.peers.engines import installed, open_peer
from twinfer.converter.build import Builder
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.tflite import read
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.session import Session

# -- one inference of every built-in model, interpreted and compiled, and of the peers that are installed --------------

each_model = pytest.mark.parametrize("name", builtin_names())


@cache
def source(name: str) -> Source:
    return load(name)


@each_model
@pytest.mark.parametrize("kind", [Interpreter, CompiledModel], ids=["interpreted", "compiled"])
def bench_invoke(benchmark: Any, name: str, kind: type[Interpreter]) -> None:
    benchmark.group = name
    model = kind.from_graph(source(name).graph)
    model.allocate_tensors()
    model.session.feed(random_inputs(model.plan.graph))
    benchmark.extra_info["macs"] = model.plan.macs
    benchmark(model.invoke)


@each_model
@pytest.mark.parametrize("peer", ["litert", "tflm"])
def bench_peer(benchmark: Any, name: str, peer: str) -> None:
    if not installed(peer):
        pytest.skip(f"{peer} is not installed")
    benchmark.group = name
    graph = source(name).graph
    model = open_peer(peer, source(name).content, len(graph.outputs))
    model.feed(random_inputs(graph))
    benchmark(model.invoke)


# -- from a file to the first inference -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def vww() -> Source:
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


def bench_read(benchmark: Any, vww: Source) -> None:
    content = vww.content
    benchmark(read, content)


def bench_plan(benchmark: Any, vww: Source) -> None:
    benchmark(make_plan, vww.graph)


def bench_emit(benchmark: Any, vww: Source) -> None:
    plan = make_plan(vww.graph)
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


# -- the loop in Python: at most 0.2 µs for an operator over the same calls from C -------------------------------------

STEPS = 100

#: The most that dispatch may cost per operator, in nanoseconds.
LIMIT_NS = 200


@pytest.fixture(scope="module")
def session() -> Session:
    """A hundred operators that do next to nothing: RELU of one element each."""
    b = Builder("dispatch")
    x = b.input("x", "FLOAT32", (1,))
    for _ in range(STEPS):
        x = b.op("RELU", [x])
    opened = Session(make_plan(b.graph([x])))
    opened.view(opened.plan.graph.inputs[0])[...] = np.float32(1)
    assert len(opened.plan.steps) == STEPS
    return opened


def bench_loop_in_c(benchmark: Any, session: Session) -> None:
    benchmark(session.run)


def bench_loop_in_python(benchmark: Any, session: Session) -> None:
    benchmark(session.run_observed, None)


def bench_loop_in_python_with_hook(benchmark: Any, session: Session) -> None:
    benchmark(session.run_observed, lambda position, step: None)


def bench_overhead_is_within_its_limit(benchmark: Any, session: Session) -> None:
    times = interleave({"c": session.run, "python": lambda: session.run_observed(None)}, seconds=0.5)
    overhead = (times["python"].min - times["c"].min) / STEPS
    benchmark.extra_info["dispatch_ns_per_operator"] = overhead
    benchmark(session.run_observed, None)
    assert overhead <= LIMIT_NS
