"""A skipped layer is noticed, although an earlier run may have left its right outputs in the arena.

gcc 11 and 12 delete calls of layers; ``../shared/research/gcc_lost_calls`` has models where they did.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import tiny
from needs import SHARED, deep_but, need_tools

from twinfer.aot.build.project import write_project
from twinfer.aot.build.targets import find
from twinfer.aot.print import emit as emitter
from twinfer.aot.print.data import Constants
from twinfer.aot.print.emit import emit
from twinfer.bench.measure import compare
from twinfer.bench.measure.embedded import Measurement, measure_on, verify_on
from twinfer.bench.models.source import load
from twinfer.bench.models.verify import verify
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import Mode, Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.program import Program
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.poison import POISONS, perishable, poison
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import HOST

LOST_CALLS = SHARED / "research" / "gcc_lost_calls"
LAYERS = range(len(make_plan(load("digits_int8").graph).steps))


@pytest.fixture
def lost_calls() -> Path:
    """The folder of models; skips if it is absent; fails in CI."""
    if not LOST_CALLS.exists() and not os.environ.get("CI"):
        pytest.skip(f"no models in {LOST_CALLS}")
    return LOST_CALLS


def skip_emitted(monkeypatch: pytest.MonkeyPatch, layer: int) -> None:
    """Makes ``NAME_run`` skip one layer of compiled code; the layer's function is still there."""
    right = emitter.RunFunctions

    def run(
        plan: Plan, constants: Constants, statements: Callable[[Program], Iterator[str]], alike: Sequence[str]
    ) -> emitter.RunFunctions:
        def kept(program: Program) -> Iterator[str]:
            lines = [*statements(program)]
            calls = [line for line in lines if "_HOOK(" not in line]
            return (line for line in lines if calls[layer:] == [] or line != calls[layer])

        return right(plan, constants, kept, alike)

    monkeypatch.setattr(emitter, "RunFunctions", run)


def skip_interpreted(monkeypatch: pytest.MonkeyPatch, layer: int) -> None:
    """Makes whole runs of the interpreter skip one layer."""

    def run(session: Session) -> None:
        session.load_inputs()
        for i in set(range(len(session.plan.steps))) - {layer}:
            session.run_step(i)

    monkeypatch.setattr(Session, "run", run)


# -- on the host -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", deep_but(LAYERS, 3))
def test_verify(layer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_emitted(monkeypatch, layer)
    proof = verify(load("digits_int8"))
    assert not proof.proven
    assert {engine for _, engine, _ in proof.faults()} == {"compiled"}


@pytest.mark.parametrize("layer", deep_but(LAYERS, 3))
def test_verify_of_the_interpreter(layer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_interpreted(monkeypatch, layer)
    assert "numpy" in {engine for _, engine, _ in verify(load("digits_int8")).faults()}


def bits() -> dict[str, bool]:
    """Engine -> whether bench sees the same bits."""
    rows = compare.compare(load("digits_int8"), compare.Comparison(rounds=1))
    return {row["engine"]: row["same_bits"] for row in rows}


@pytest.mark.parametrize("layer", deep_but(LAYERS, 3))
def test_bench(layer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bits() == {"interpreted": True, "compiled": True}
    skip_emitted(monkeypatch, layer)
    assert bits() == {"interpreted": True, "compiled": False}


def self_test(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    need_tools("make", "gcc")
    command = ["make", "-C", str(folder), "clean", "test", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)


@pytest.mark.parametrize("name", ["dense", "conv", "lasting"])
def test_self_test(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = lasting() if name == "lasting" else tiny.MODELS[name]()
    write_project(plan, name, tmp_path / "right")
    assert self_test(tmp_path / "right").returncode == 0
    skip_emitted(monkeypatch, len(plan.steps) - 1)
    write_project(plan, name, tmp_path / "wrong")
    done = self_test(tmp_path / "wrong", "CFLAGS=-O2")
    assert done.returncode != 0
    assert f"{name}: FAILED" in done.stdout
    last = len(plan.graph.outputs) - 1
    assert f"output {last} in place: run 0" in done.stdout
    assert f"output {last}: run 0" in done.stdout


def lasting() -> Plan:
    """tiny.state with an input that is passed on, so that the arena holds more than variables."""
    state, passing = tiny.state().graph, tiny.dense().graph
    nodes = tuple(replace(node, index=i) for i, node in enumerate((*passing.nodes, *state.nodes)))
    outputs = (*passing.outputs, *state.outputs)
    graph = Graph("lasting", (*passing.tensors, *state.tensors), nodes, passing.inputs, outputs)
    return make_plan(graph, HOST)


def test_what_is_kept_is_not_poisoned() -> None:
    plan = lasting()
    session = Session(plan)
    for value in POISONS:
        before = {t: session.view(t).copy() for t in plan.variables}
        poison(session, value)
        assert all(np.array_equal(session.view(t), before[t]) for t in plan.variables)
        filled = sum(end - begin for begin, end in perishable(plan))
        assert np.count_nonzero(session.memory == value) >= filled > 0
        session.feed(random_inputs(plan.graph))
        session.run()
    assert sum(t.nbytes for t in plan.lasting) == sum(t.nbytes for t in plan.variables) > 0


def test_decoded_weights_are_kept() -> None:
    graph = load("digits_int8").graph
    plan = make_plan(graph, HOST, Options(weights="lut", decode="start"))
    assert plan.lasting
    session, plain = Session(plan), Session(make_plan(graph))
    for engine in (session, plain):
        engine.feed(random_inputs(graph))
        for value in POISONS:
            poison(engine, value)
            engine.run()
    assert [o.tobytes() for o in session.outputs()] == [o.tobytes() for o in plain.outputs()]


# -- on a microcontroller ----------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_on_a_core(board_tools: None, monkeypatch: pytest.MonkeyPatch) -> None:
    source, card = load("digits_int8"), find("cortex-m4")
    assert verify_on(source, [card]).proven
    skip_emitted(monkeypatch, LAYERS[-1])
    assert {engine for _, engine, _ in verify_on(source, [card]).faults()} == {
        "compiled layers on cortex-m4",
        "compiled rows on cortex-m4",
    }
    rows = {row["engine"]: row["same_bits"] for row in measure_on(source, card, Measurement())}
    assert rows == {"compiled": False, "interpreted": True}


# -- calls that gcc deletes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", deep_but(get_args(Mode), "compiled"))
@pytest.mark.parametrize("name", ["min_host_gather", "min_host_concat2", "min_m4_transpose", "m4_slice_930012"])
def test_no_call_is_lost_on_the_host(name: str, mode: Mode, lost_calls: Path, tmp_path: Path) -> None:
    plan = make_plan(load(str(lost_calls / f"{name}.tflite")).graph)
    write_project(plan.printed(mode=mode), name, tmp_path / name)
    for level in ("-O1", "-O2", "-O3", "-Os"):
        done = self_test(tmp_path / name, "CC=gcc", f"CFLAGS={level} -Wall -Wextra -Wconversion -pedantic -Werror")
        assert done.returncode == 0, (level, done.stdout, done.stderr)


def test_no_function_of_a_layer_is_open_to_conclusions() -> None:
    """Every function that emitted code calls in itself is TW_LAYER, so that gcc draws no conclusions from it."""
    for name, model in tiny.MODELS.items():
        for mode in get_args(Mode):
            code = emit(model().printed(mode=mode), name).code[f"{name}.c"]
            heads = [
                line
                for line in code.splitlines()
                if line.startswith("static") and line.endswith("{") and "=" not in line
            ]
            open_ones = [
                line for line in heads if not re.search("TW_LAYER|TW_SHARED", line) and f"{name}_copy(" not in line
            ]
            assert not open_ones
