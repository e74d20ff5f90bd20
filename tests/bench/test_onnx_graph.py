"""onnxruntime's peer: every operator that it has against numpy, whole models, and that integers stay integers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from cases import cases_of, graph_of, numpy_outputs, values_of

from twinfer.bench.models.builtin import builtin
from twinfer.bench.models.onnx_graph import _MOVED, _REAL, onnx_graph
from twinfer.bench.peers.engines import installed, open_peer
from twinfer.bench.peers.onnxruntime import opened, settings
from twinfer.converter.build import Builder
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.write.tflite import write

#: How onnxruntime refuses a case while it runs.
ELSEWHERE = "QLinearGlobalAveragePool parameter out of computation range"


def ours(graph: Graph, inputs: list[Array]) -> list[Array]:
    interpreter = Interpreter(model_content=write(graph))
    interpreter.allocate_tensors()
    interpreter.session.feed(inputs)
    interpreter.invoke()
    return interpreter.session.outputs()


def near(got: Array, want: Array, steps: int = 1) -> bool:
    """Integers within so many steps, and floats within rounding; where a sum is infinite, the float is any."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if want.dtype == np.int8:
        return bool((abs(got.astype(int) - want) <= steps).all())
    finite = np.isfinite(got) & np.isfinite(want)
    return np.allclose(got[finite], want[finite], rtol=1e-5, atol=5e-5 * abs(want[finite]).max(initial=0))


@pytest.mark.parametrize("op", sorted({**_REAL, **_MOVED}))
def test_operators(op: str) -> None:
    tried = 0
    for name, case in cases_of(op).items():
        graph = graph_of(case.node)
        try:
            peer = open_peer("onnxruntime", write(graph), len(graph.outputs))
        except ToolError:
            assert {t.type for t in graph.tensors} - {"FLOAT32"}, name
            continue
        values = values_of(case, graph)
        try:
            outputs = peer(values)
        except RuntimeError as error:
            if ELSEWHERE not in str(error):
                raise
            continue
        tried += 1
        for got, want in zip(outputs, numpy_outputs(case, graph, values), strict=True):
            assert near(got, want), name
    assert tried >= 2


@pytest.mark.parametrize("name", builtin())
def test_models(name: str) -> None:
    """Beside LiteRT, which rounds once as onnxruntime does; before the softmax, behind which one step may be many."""
    if not installed("litert"):
        pytest.skip("LiteRT is not installed")
    graph = builtin()[name]()
    if graph.nodes[-1].op == "SOFTMAX":
        graph = replace(graph, nodes=graph.nodes[:-1], outputs=(graph.nodes[-1].input(0),), signatures=())
    peer, other = (open_peer(name, write(graph), 1) for name in ("onnxruntime", "litert"))
    for seed in range(3):
        inputs = random_inputs(graph, seed)
        (got,), (want,) = peer(inputs), other(inputs)
        assert near(got, want, steps=3)
        assert want.std() > 0


@pytest.mark.parametrize("name", [name for name in builtin() if name.endswith("int8")])
def test_integers_stay_integers(name: str, tmp_path: Path) -> None:
    """onnxruntime fuses every float operator between DequantizeLinear and QuantizeLinear into one over integers."""
    options = settings()
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    graph = builtin()[name]()
    opened(write(graph), options)
    fused = [node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node]
    moved = {"Transpose", "Reshape", "Clip"}
    assert {op for op in fused if not op.startswith("QLinear")} <= {"QGemm", *moved}
    layers = [node for node in graph.nodes if node.op in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")]
    assert fused.count("QLinearConv") + fused.count("QGemm") == len(layers)


def test_shapes_that_change_and_broadcast() -> None:
    """Images become rows and rows images, and operands of fewer dimensions go along with TFLite's last ones."""
    b = Builder()
    x, y = b.input("x", "FLOAT32", (1, 2, 3, 4)), b.input("y", "FLOAT32", (3, 4))
    rows = b.op("RESHAPE", [x, b.constant(np.array([6, 4], np.int32))], (6, 4))
    back = b.op("RESHAPE", [rows, b.constant(np.array([1, 3, 2, 4], np.int32))], (1, 3, 2, 4))
    added = b.op("ADD", [x, y], (1, 2, 3, 4))
    more = b.op("ADD", [added, b.constant(np.arange(4, dtype=np.float32))], (1, 2, 3, 4))
    soft = b.op("SOFTMAX", [more], (1, 2, 3, 4), beta=0.5)
    mean = b.op("MEAN", [soft, b.constant(np.array([1], np.int32))], (1, 3, 4), keep_dims=False)
    graph = b.graph([rows, back, added, soft, mean, x])
    inputs = random_inputs(graph)
    for got, want in zip(open_peer("onnxruntime", write(graph), 6)(inputs), ours(graph, inputs), strict=True):
        assert near(got, want)


def test_what_it_has_not_is_named() -> None:
    b = Builder()
    tanh = b.graph([b.op("TANH", [b.input("x", "FLOAT32", (2, 3))], (2, 3))])
    with pytest.raises(ToolError, match="no ONNX file is made of operator 0 TANH"):
        onnx_graph(tanh)
    with pytest.raises(ToolError, match="refuses this model: no ONNX file is made of operator 0 TANH"):
        open_peer("onnxruntime", write(tanh), 1)
    b = Builder()
    short = b.graph([b.op("RELU", [b.input("x", "INT16", (2,), 0.5)], (2,), scale=0.5)])
    with pytest.raises(ToolError, match=r"FLOAT32 and INT8 alone, not tensor 'x' INT16\[2\] of the model"):
        onnx_graph(short)
    b = Builder()
    weights = b.constant(np.ones((3, 2), np.int8), 0.5)
    hybrid = b.graph([b.op("FULLY_CONNECTED", [b.input("x", "FLOAT32", (1, 2)), weights], (1, 3))])
    with pytest.raises(ToolError, match=r"FULLY_CONNECTED .* over two types"):
        onnx_graph(hybrid)
    b = Builder()
    variable = b.variable("v", "FLOAT32", (2,))
    with pytest.raises(ToolError, match="of variables: no operator writes tensor 'v'"):
        onnx_graph(b.graph([b.op("ADD", [b.input("x", "FLOAT32", (2,)), variable], (2,))]))


def test_sums_are_right_without_vnni(monkeypatch: pytest.MonkeyPatch) -> None:
    """There, products are added in 16 bits unless weights become uint8, which is slow elsewhere."""
    key = "session.x64quantprecision"
    monkeypatch.setattr("twinfer.bench.peers.onnxruntime.features", lambda level: ["avx2"])
    assert settings().get_session_config_entry(key) == "1"
    for known in ("avx_vnni", "avx512_vnni"):
        monkeypatch.setattr("twinfer.bench.peers.onnxruntime.features", lambda level, name=known: ["avx2", name])
        with pytest.raises(RuntimeError, match=key):
            settings().get_session_config_entry(key)
