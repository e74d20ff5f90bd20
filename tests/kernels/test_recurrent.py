"""Operators with a state over a sequence of runs: numpy, interpreter, compiled C, and the runtime that decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cases import assert_equal, cases_of, compiled_together, graph_of, runs_of

from twinfer.bench.peers.engines import open_peer
from twinfer.runtime.graph import Array, Graph, Node, Tensor
from twinfer.runtime.op import Case
from twinfer.runtime.ops.core import gemmlowp16
from twinfer.runtime.ops.recurrent._lstm_cases import Form, case
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.registry import operators
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import GENERIC
from twinfer.runtime.write.tflite import write

#: How many runs follow one another.
RUNS = 6

OPERATORS = (
    "BIDIRECTIONAL_SEQUENCE_LSTM",
    "BIDIRECTIONAL_SEQUENCE_RNN",
    "LSTM",
    "RNN",
    "SVDF",
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
    "UNIDIRECTIONAL_SEQUENCE_RNN",
)

#: Float states wander apart from the reference's, a little with every run.
FURTHER = 3


def all_cases() -> list[Any]:
    return [pytest.param(one, id=name) for op in OPERATORS for name, one in cases_of(op).items()]


def fed(graph: Graph) -> list[list[Array]]:
    """The inputs of all runs, every one different."""
    return [random_inputs(graph, 100 + seed) for seed in range(RUNS)]


def test_every_operator_with_a_state_is_here() -> None:
    stateful = {op for op in operators() if any(t and t.variable for c in cases_of(op).values() for t in c.node.inputs)}
    assert stateful == set(OPERATORS)


@pytest.mark.parametrize("one", all_cases())
def test_runs_of_the_oracle(one: Case) -> None:
    if one.oracle == "none":
        assert one.why
        return
    graph = graph_of(one.node)
    sequence = fed(graph)
    peer = open_peer({"tflm": "tflm", "litert": "litert-ref"}[one.oracle], write(graph), len(graph.outputs))
    peer.reset()
    wanted = []
    for values in sequence:
        peer.feed(values)
        peer.invoke()
        wanted.append([np.array(value) for value in peer.outputs()])
    for run, got in enumerate(runs_of(Session(make_plan(graph, GENERIC)), sequence)):
        assert_equal(got, wanted[run], graph.outputs, FURTHER * one.tolerance, f"run {run}")
    if graph.outputs[0].size > 8:
        assert all((wanted[0][0] != want[0]).any() for want in wanted[1:]), "the outputs never change"


@pytest.mark.parametrize("power", range(-15, -8))
def test_an_integer_lstm_from_any_cell(power: int) -> None:
    """Runs never come to the ends of a cell's range in so few steps: its values are set."""
    rng = np.random.default_rng(-power)
    node = case(rng, Form("INT8", (40, 1, 3, 8), 0.0, flags=frozenset(["peephole"]), power=power, op="LSTM")).node
    variables = {
        t: rng.integers(*limits(t), t.shape, t.dtype, endpoint=True) for t in graph_of(node).tensors if t.variable
    }
    assert_step(node, variables)


@pytest.mark.parametrize("seed", range(3))
def test_a_basic_lstm_at_the_ends_of_its_cell(seed: int) -> None:
    """Gates are open or shut, and cells and what is shown reach the ends of their types."""
    rng = np.random.default_rng(seed)
    (node,) = (c.node for c in cases_of("LSTM").values() if c.node.output.type == "UINT8" and c.node.output.size > 9)
    bias = replace(node.input(3), data=rng.choice([-(10**6), 10**6], node.input(3).shape).astype(np.int32))
    node = replace(node, inputs=(*node.inputs[:3], bias, node.input(4)))
    variables = {t: rng.choice(limits(t), t.shape).astype(t.dtype) for t in graph_of(node).tensors if t.variable}
    shown, cells = assert_step(node, variables)[:2]
    assert shown.min() == 0
    assert {cells.min(), cells.max()} == {-32768, 32767}


def assert_step(node: Node, variables: Mapping[Tensor, Array]) -> Sequence[Array]:
    """The outputs of one run that begins with these variables, which are those of numpy."""
    graph = graph_of(node)
    session = Session(make_plan(graph, GENERIC))
    (x,) = random_inputs(graph, 1)
    for tensor, value in variables.items():
        session.view(tensor)[...] = value
    session.feed([x])
    session.run()
    inputs = [None if t is None else variables.get(t, x if t.data is None else t.data) for t in node.inputs]
    assert_equal(session.outputs(), operators()["LSTM"].reference(node, inputs), graph.outputs, 0, node.op)
    return session.outputs()


def limits(tensor: Tensor) -> tuple[int, int]:
    info = np.iinfo(tensor.dtype)
    return int(info.min), int(info.max)


@pytest.mark.parametrize("bits", range(7))
def test_fixed_point_of_16_bits_is_close(bits: int) -> None:
    """Every value of a cell: gemmlowp's logistic and tanh are within some steps of 15 bits, and saturate."""
    raw = np.arange(-32768, 32768)
    real = raw / 2.0 ** (15 - bits)
    for by_gemmlowp, exact in ((gemmlowp16.tanh, np.tanh(real)), (gemmlowp16.logistic, 1 / (1 + np.exp(-real)))):
        value = by_gemmlowp(raw, bits)
        assert np.abs(value / 32768 - exact).max() < 16 / 32768
        assert np.abs(value).max() <= 32767


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.usefixtures("kept_builds")
def test_compiled_runs_are_interpreted_runs(op: str) -> None:
    graphs = {name.replace("-", "_"): graph_of(one.node) for name, one in cases_of(op).items()}
    plans = {name: make_plan(graph, GENERIC) for name, graph in graphs.items()}
    engines = compiled_together(plans)
    for name, graph in graphs.items():
        sequence = fed(graph)
        got, want = (runs_of(engine, sequence) for engine in (engines[name], Session(plans[name], 0)))
        for run in range(RUNS):
            assert_equal(got[run], want[run], graph.outputs, 0, f"{name}, run {run}")
