"""Integers divided by 0: every command that runs a model says so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from flows import Sub

from twinfer.aot.build.targets import find
from twinfer.bench.measure.embedded import verify_on
from twinfer.bench.models.source import Source
from twinfer.bench.models.verify import Samples, verify
from twinfer.bench.models.zero_division import zero_divisions
from twinfer.command_line.main import main
from twinfer.command_line.show.matrix import findings
from twinfer.converter.build import Builder
from twinfer.runtime.graph import Graph

TOLD = "'div_2' INT8[2, 3] is divided by 0 in {} of its elements on {}: no engine defines that, LiteRT aborts"


def ratio(divisors: Sequence[int] | None) -> Graph:
    """x [2, 3] / divisors [3], int8; the value 3 means 0. None: x divided by values computed from it, all rounded to
    0."""
    b = Builder("ratio")
    x = b.input("x", "INT8", (2, 3), scale=0.5, zero=3)
    if divisors is None:
        by = b.op("RELU_N1_TO_1", [x], scale=100.0, zero=3)
    else:
        by = b.constant(np.array(divisors, np.int8), scale=0.5, zero=3)
    return b.graph([b.op("DIV", [x, by], shape=(2, 3), scale=0.5, zero=0)])


def of_inputs(kind: str) -> Graph:
    """a [4] / b [4], both inputs."""
    b = Builder("inputs")
    scale = {} if kind in ("FLOAT32", "INT32") else {"scale": 0.5, "zero": 0}
    operands = [b.input(name, kind, (4,), **scale) for name in "ab"]
    return b.graph([b.op("DIV", operands, shape=(4,), **scale)])


@pytest.fixture
def model(tmp_path: Path) -> str:
    ratio([3, 4, 5]).save(tmp_path / "ratio.tflite")
    return str(tmp_path / "ratio.tflite")


@pytest.mark.parametrize("kind", ["INT8", "INT32"])
def test_divisors_that_are_fed(kind: str) -> None:
    """Counts add up over samples; each depends on the sample's inputs."""
    graph = of_inputs(kind)
    dtype = graph.inputs[0].dtype
    samples = [[np.ones(4, dtype), np.array(by, dtype)] for by in ([0, 1, 0, 2], [1, 1, 1, 1], [5, 0, 1, 1])]
    assert list(zero_divisions(graph, samples).values()) == [3]
    assert not zero_divisions(graph, samples[1:2])


def test_a_loop_divides_in_every_turn() -> None:
    """x becomes x / 0, x / 1, x / 2 in a WHILE, and is divided by an input behind it."""
    main, test, body = Sub("main"), Sub("test"), Sub("body")
    for sub in (main, test, body):
        sub.input((1,), "INT32"), sub.input((4,), "INT32")
    by, one, end = main.input((4,), "INT32"), np.ones(1, np.int32), np.full(1, 3, np.int32)
    turn, x = body.inputs
    divided = body.op("DIV", [x, turn], fused_activation_function="NONE")
    _, result = main.loop(1, 2, main.inputs[:2])
    last = main.op("DIV", [result, by], fused_activation_function="NONE")
    loop = test.graph([test.less(test.inputs[0], end)]), body.graph([body.add(turn, one), divided])
    graph = main.graph([last], *loop)
    sample = [np.zeros(1, np.int32), np.ones(4, np.int32), np.array([0, 1, 0, 1], np.int32)]
    assert sorted(zero_divisions(graph, [sample]).values()) == [2, 4]


def test_floats_may_be_divided_by_zero() -> None:
    assert not zero_divisions(of_inputs("FLOAT32"), [[np.ones(4, np.float32), np.zeros(4, np.float32)]])


@pytest.mark.parametrize(("divisors", "count"), [(None, 12), ((3, 4, 5), 4)])
def test_nothing_is_proven(divisors: Sequence[int] | None, count: int) -> None:
    """The engines agree, but no reference says what is right."""
    proof = verify(Source("ratio", ratio(divisors)), samples=Samples(2))
    assert list(proof.faults()) == []
    assert not proof.proven
    assert list(proof.by_zero.values()) == [count]
    said = " ".join(text.plain for text in findings([proof]))
    assert f"ratio: not proven: tensor {TOLD.format(count, '2 samples')}" in said
    assert "ratio: proven" not in said


@pytest.mark.usefixtures("board_tools")
def test_nothing_is_proven_on_a_core() -> None:
    proof = verify_on(Source("ratio", ratio(None)), [find("cortex-m4")])
    assert list(proof.by_zero.values()) == [6]
    assert not proof.proven


@pytest.mark.parametrize("where", [[], ["--engine", "compiled"], ["--target", "cortex-m4"]], ids=" ".join)
def test_run(where: list[str], model: str, capsys: pytest.CaptureFixture[str], board_tools: None) -> None:
    assert main(["run", model, *where]) == 0
    assert TOLD.format(2, "these inputs") in capsys.readouterr().err


def test_bench_says_it_once(model: str, capsys: pytest.CaptureFixture[str], board_tools: None) -> None:
    assert main(["bench", model, "--runs", "1", "--against", "none", "--target", "host,cortex-m4"]) == 0
    assert capsys.readouterr().err.count("ratio: tensor " + TOLD.format(2, "the inputs of the bench")) == 1
