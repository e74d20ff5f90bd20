"""SVDF and LSTM in int8: TFLM's bits, LiteRT within a step, and as good as from TFLite's own converter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinfer.bench.lab.engines import from_type, to_type
from twinfer.bench.peers.engines import open_peer
from twinfer.converter.build import Builder
from twinfer.converter.convert import convert
from twinfer.converter.quantize.states import lstm, lstm_is_float
from twinfer.runtime.graph import Graph, Quant
from twinfer.runtime.ops.recurrent.lstm import CELL, GATES, HIDDEN
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.tflite import read_file
from twinfer.runtime.run.session import Session
from twinfer.runtime.write.tflite import write


def ours(graph: Graph, x: Any, *, stream: bool) -> list[Any]:
    """The first output for every row of x, from fresh state or from the state after the row before."""
    session, outputs = Session(make_plan(graph)), []
    for i, row in enumerate(to_type(x, graph.inputs[0])):
        if i == 0 or not stream:
            session.reset_variables()
        session.view(graph.inputs[0])[...] = row
        session.run()
        outputs.append(session.view(graph.outputs[0]).copy())
    return outputs


def snr_db(want: Any, got: Any) -> float:
    x, y = np.asarray(want, np.float64), np.asarray(got, np.float64)
    return float(10 * np.log10(np.square(x).sum() / np.square(x - y).sum()))


def assert_peers_agree(graph: Graph, x: Any, *, stream: bool) -> list[Any]:
    """Runs the int8 graph in all three engines; returns our outputs as real numbers.

    TFLM has the same bits. LiteRT is close: it computes sigmoid and tanh by gemmlowp, TFLM by tables.
    """
    want = ours(graph, x, stream=stream)
    real = [from_type(w, graph.outputs[0]) for w in want]
    for name in ("tflm", "litert-ref"):
        peer, outputs = open_peer(name, write(graph), 1), []
        for i, row in enumerate(to_type(x, graph.inputs[0])):
            if i == 0 or not stream:
                peer.reset()
            outputs.append(peer([row])[0].reshape(want[i].shape))
        if name == "tflm":
            np.testing.assert_array_equal(outputs, want)
        else:
            assert snr_db(real, [from_type(f, graph.outputs[0]) for f in outputs]) > 35
    return real


def lstm_graph(
    rng: np.random.Generator, sizes: tuple[int, int, int, int], gain: float, before: str = "", **options: Any
) -> Graph:
    batches, steps, size, units = sizes
    b = Builder("lstm")
    x = b.input("x", "FLOAT32", (batches, steps, size))
    inputs: list[Any] = [None] * 24
    inputs[0] = b.op(before, [x]) if before else x
    for w, r, bias in GATES:
        inputs[w] = (gain * rng.standard_normal((units, size))).astype(np.float32)
        inputs[r] = (gain * rng.standard_normal((units, units)) / units**0.5).astype(np.float32)
        inputs[bias] = rng.standard_normal(units).astype(np.float32)
    for i in (HIDDEN, CELL):
        inputs[i] = b.variable(f"state_{i}", "FLOAT32", (batches, units))
    y = b.op("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, fused_activation_function="TANH", time_major=False, **options)
    return b.graph([b.op("RELU", [y])])


@pytest.mark.parametrize(("sizes", "gain"), [((1, 6, 5, 7), 0.4), ((2, 9, 3, 16), 1.5), ((1, 40, 2, 4), 3.0)])
def test_lstm(sizes: tuple[int, int, int, int], gain: float) -> None:
    rng = np.random.default_rng(5)
    graph = lstm_graph(rng, sizes, gain)
    x = rng.standard_normal((40, *sizes[:3])).astype(np.float32)
    integer = convert(graph, quantize="int8", calibration={"x": x[:20]})
    assert {t.type for n in integer.nodes for t in n.outputs} == {"INT8"}
    cell = integer.nodes[0].input(CELL)
    assert cell.type == "INT16"
    assert np.frexp(cell.scale)[0] == 0.5
    assert snr_db(ours(graph, x, stream=False), assert_peers_agree(integer, x, stream=False)) > 25


@given(st.floats(-1e6, 0, width=32), st.floats(0, 1e6, width=32))
def test_cells_have_the_least_power_of_two_that_reaches_their_range(low: float, high: float) -> None:
    """From 2**-12 to 2**-4, as kernels need it; the hidden state and the last intermediate are quantised as the output
    is."""
    (node, _) = lstm_graph(np.random.default_rng(1), (1, 2, 3, 2), 0.5).nodes
    x, y = (replace(t, type="INT8", quant=Quant.per_tensor(0.1, 3)) for t in (node.input(0), node.output))
    made = lstm(replace(node, inputs=(x, *node.inputs[1:]), outputs=(y,)), lambda tensor: (low, high))
    step = made.input(CELL).scale
    assert step in [2.0**n for n in range(-12, -3)]
    assert step == 2.0**-12 or step / 2 * 2**15 < max(-low, high)
    assert step == 2.0**-4 or step * 2**15 >= max(-low, high)
    kept = [*made.extra["intermediates"]]
    assert [t.type for t in kept] == ["FLOAT32"] * 4 + ["INT8"]
    assert (kept[4].quant, made.input(HIDDEN).quant, made.input(CELL).zero) == (y.quant, y.quant, 0)


@pytest.mark.parametrize("position", [9, 10, 11, 16, 17, 20, 21, 22, 23])
def test_lstm_with_more_than_four_gates_stays_float(position: int) -> None:
    """TFLM has no int8 kernel for peepholes, projections and norms."""
    node = lstm_graph(np.random.default_rng(4), (1, 4, 2, 3), 0.5).nodes[0]
    assert lstm_is_float(node)
    inputs = [*node.inputs]
    inputs[position] = node.input(GATES[0][2])
    assert not lstm_is_float(replace(node, inputs=tuple(inputs)))


def test_lstm_as_tflites_own_converter(corpus: Path) -> None:
    real, theirs = (read_file(corpus / "models" / f"tflm_trained_lstm{end}.tflite") for end in ("", "_int8"))
    rng = np.random.default_rng(8)
    x = (rng.random((60, 1, 28, 28)) * (rng.random((60, 1, 28, 28)) < 0.2)).astype(np.float32)
    integer = convert(real, quantize="int8", calibration={real.inputs[0].name: x})
    assert integer.nodes[0].input(CELL).type == "INT16"
    want = ours(real, x, stream=False)
    by_them = [from_type(y, theirs.outputs[0]) for y in ours(theirs, x, stream=False)]
    assert snr_db(want, assert_peers_agree(integer, x[:10], stream=False) + [
        from_type(y, integer.outputs[0]) for y in ours(integer, x[10:], stream=False)
    ]) > snr_db(want, by_them) - 0.5  # fmt: skip


def svdf_graph(rng: np.random.Generator, activation: str, *, joined: bool = False) -> Graph:
    b = Builder("svdf")
    x = b.input("x", "FLOAT32", (1, 16))
    features, time = (rng.standard_normal((12, n)).astype(np.float32) for n in (16, 8))
    state = b.variable("state", "FLOAT32", (1, 12 * 8))
    inputs = [x, features, time, rng.standard_normal(6).astype(np.float32), state]
    y = b.op("SVDF", inputs, rank=2, fused_activation_function=activation)
    if joined:
        y = b.op("CONCATENATION", [y, b.op("FULLY_CONNECTED", [x, -np.ones((3, 16), np.float32)])], axis=1)
    return b.graph([b.op("FULLY_CONNECTED", [y, rng.standard_normal((4, y.shape[1])).astype(np.float32)])])


@pytest.mark.parametrize("joined", [False, True])
def test_svdf_over_a_stream(joined: bool) -> None:
    """Calibration sees full states. RELU also holds if the output is joined with negative values."""
    rng = np.random.default_rng(9)
    graph = svdf_graph(rng, "RELU", joined=joined)
    x = (0.1 * np.cumsum(rng.standard_normal((80, 1, 16)), axis=0)).astype(np.float32)
    integer = convert(graph, quantize="int8", calibration={"x": x})
    node = integer.nodes[0]
    assert [t.type for t in node.inputs if t is not None] == ["INT8", "INT8", "INT16", "INT32", "INT16"]
    assert node.output.zero == -128
    assert snr_db(ours(graph, x, stream=True), assert_peers_agree(integer, x, stream=True)) > 30


@pytest.mark.parametrize(("bias", "alike"), [(1.0, False), (1.0, True), (3e3, False)])
def test_sums_of_an_svdf_fit_int32(bias: float, alike: bool) -> None:
    """Half of it for the sum over 16-bit states, half for the bias, which keeps its value; also if either is large."""
    rng = np.random.default_rng(4)
    graph = svdf_graph(rng, "RELU")
    svdf = graph.nodes[0]
    values = {2: np.ones((12, 8), np.float32), 3: bias * np.asarray(svdf.input(3).data)}
    new = {svdf.input(i): replace(svdf.input(i), data=values[i]) for i in ((2, 3) if alike else (3,))}
    nodes = (replace(svdf, inputs=tuple(new.get(t, t) for t in svdf.inputs if t)), *graph.nodes[1:])
    graph = replace(graph, tensors=tuple(new.get(t, t) for t in graph.tensors), nodes=nodes)
    x = rng.standard_normal((40, 1, 16)).astype(np.float32)
    integer = convert(graph, quantize="int8", calibration={"x": x})
    _, _, time, start, state = (integer.nodes[0].input(i) for i in range(5))
    taps, added = (np.abs(np.asarray(t.data).astype(np.int64)) for t in (time, start))
    assert taps.reshape(6, -1).sum(1).max() * 2**15 <= 2**30
    assert added.max() <= 2**30
    np.testing.assert_allclose(np.asarray(start.data) * (state.scale * time.scale), values[3], rtol=1e-3, atol=1e-4)


def test_svdf_without_relu_stays_float() -> None:
    x = np.random.default_rng(1).standard_normal((9, 1, 16)).astype(np.float32)
    integer = convert(svdf_graph(np.random.default_rng(2), "NONE"), quantize="int8", calibration={"x": x})
    assert [n.op for n in integer.nodes] == ["DEQUANTIZE", "SVDF", "QUANTIZE", "FULLY_CONNECTED"]
