"""``twinfer tune`` times every way to compute a layer; what it keeps is taken only where it is asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import cases_of, graph_of

import twinfer
from twinfer.bench.host.tune import Tuned, loss, settings_of, tune
from twinfer.bench.models.source import load
from twinfer.command_line.main import main
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph
from twinfer.runtime.options import Options
from twinfer.runtime.plan import tuned
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.plan.tuned import Setting, alternatives, key, save
from twinfer.runtime.run import isa
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import HOST


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def slowest(graph: Any) -> dict[str, Setting]:
    """Plain C for every layer."""
    return {key(step.node): Setting() for step in make_plan(graph, isa.this_computer()).steps}


def model_of(name: str) -> Graph:
    """A built-in model, or of int16 one that has a single convolution."""
    if name != "int16":
        return load(name).graph
    nodes = (case.node for case in cases_of("CONV_2D").values())
    return graph_of(next(n for n in nodes if n.input(0).type == "INT16" and n.output.shape[1] > 3))


@pytest.mark.parametrize("name", ["digits_int8", "digits_float32", "int16"])
def test_every_way_gives_the_same_bits(name: str) -> None:
    graph, target = model_of(name), isa.this_computer()
    given = random_inputs(graph)
    every = {
        key(step.node): [way for way, _ in alternatives(step.node, target)] for step in make_plan(graph, target).steps
    }
    assert max(map(len, every.values())) >= 2
    results = []
    for i in range(max(map(len, every.values()))):
        session = Session(make_plan(graph, target, settings={k: each[i % len(each)] for k, each in every.items()}))
        session.feed(given)
        session.run()
        results.append(session.outputs()[0])
    assert all(np.array_equal(results[0], other) for other in results[1:])


def test_the_usual_way_comes_first_and_no_call_twice() -> None:
    target = isa.this_computer()
    plan = make_plan(load("digits_int8").graph, target)
    for step in plan.steps:
        settings, calls = zip(*alternatives(step.node, target), strict=True)
        assert (settings[0].variant, calls[0].kernel) == (step.choice.variant, step.call.kernel)
        assert calls[0].params == step.call.params
        assert settings[-1] == Setting()
        assert len(set(settings)) == len(settings)
        same = [(call.kernel, repr(dict(call.params))) for call in calls[:-1]]
        assert len(set(same)) == len(same)


def test_layers_have_times_of_every_way() -> None:
    graph = load("digits_int8").graph
    layers = tune(graph, 0.2, (told := list[float]()).append)
    assert told[0] < 0.5
    for layer in layers:
        assert {way for way, _ in alternatives(layer.node, isa.this_computer())} == set(layer.times)
        assert layer.usual in layer.times
        assert layer.best in layer.times
    assert loss(layers) >= 0


def test_another_way_is_best_only_if_it_is_clearly_faster() -> None:
    node = make_plan(load("digits_int8").graph).steps[0].node
    usual, other = Setting("wide"), Setting("wide", 8)

    def layer(*ns: int) -> Tuned:
        return Tuned(0, node, usual, dict(zip((usual, other), ns, strict=True)))

    assert layer(1000, 971).best == usual
    assert layer(1000, 969).best == other
    assert layer(900, 1000).best == usual
    assert loss([layer(1000, 800), layer(1000, 1200)]) == pytest.approx(2000 / 1800 - 1)
    assert settings_of([layer(1000, 800)]) == {key(node): other}


def test_only_who_asks_gets_what_was_kept() -> None:
    graph, target = load("digits_int8").graph, isa.this_computer()
    usual = [step.call.kernel for step in make_plan(graph, target, Options(tuned=True)).steps]
    save(target, slowest(graph))
    assert tuned.load(target) == slowest(graph)
    plan = make_plan(graph, target, Options(tuned=True))
    assert {step.choice.variant for step in plan.steps} == {"plain"}
    assert [step.call.kernel for step in make_plan(graph, target).steps] == usual
    content = load("digits_int8").content
    for asked in (False, True):
        interpreter = twinfer.Interpreter(model_content=content, tuned=asked)
        interpreter.allocate_tensors()
        assert ({step.choice.variant for step in interpreter.plan.steps} == {"plain"}) == asked


def test_a_way_that_is_gone_is_the_usual_one() -> None:
    graph, target = load("digits_int8").graph, isa.this_computer()
    gone = {name: Setting("of an older version", 3) for name in slowest(graph)}
    kernels = [step.call.kernel for step in make_plan(graph, target, settings=gone).steps]
    assert kernels == [step.call.kernel for step in make_plan(graph, target).steps]


def test_other_machines_are_not_tuned() -> None:
    with pytest.raises(InvalidArgumentError, match=r"native.*not for host"):
        make_plan(load("digits_int8").graph, HOST, Options(tuned=True))


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["tune", "digits_int8", "--seconds", "0.2", "--json", str(tmp_path / "tuned.json")]) == 0
    said = capsys.readouterr().out
    for word in ("CONV_2D", "wide", "% longer than the best", "Kept in"):
        assert word in said
    told = json.loads((tmp_path / "tuned.json").read_text())
    assert told["model"] == "digits_int8"
    assert told["layers"][0]["usual"] in told["layers"][0]["min_us"]
    assert tuned.load(isa.this_computer()).keys() >= {
        key(s.node) for s in make_plan(load("digits_int8").graph).steps[:1]
    }
    assert tuned.file(isa.this_computer()).parent == tmp_path / "twinfer"


def test_compile_takes_it_for_this_computer_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compile", "digits_int8", "--tuned", "-o", str(tmp_path / "c")]
    assert main([*words, "--target", "native"]) == 0
    assert main(words) == 2
    assert "not for host" in capsys.readouterr().err
