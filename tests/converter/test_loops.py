"""Recurrent layers become loops: the same values as ONNX Runtime's, the bits of what is written out step by step here
and in LiteRT, and a file that is little larger than the weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from needs import needs

needs("onnx", "onnxruntime", "ai_edge_litert")

from onnx import helper  # noqa: E402
from onnx_tools import by_litert, by_onnxruntime, by_ours, compare, floats, model  # noqa: E402

import twinfer  # noqa: E402
from twinfer.converter.build import Builder  # noqa: E402
from twinfer.converter.convert import conversion  # noqa: E402
from twinfer.runtime.graph import Graph  # noqa: E402
from twinfer.runtime.write.tflite import write  # noqa: E402

TIME, DEPTH, HIDDEN = 12, 3, 5
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(kind: str, batch: int, outputs: str, **options: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """A model of one layer and its inputs; ``outputs``: "sequence", "last" or "both"."""
    rng = np.random.default_rng(1)
    directions, rows = 2 if options.get("direction") == "bidirectional" else 1, GATES[kind] * HIDDEN
    weights = {
        "w": floats(rng, directions, rows, DEPTH), "r": floats(rng, directions, rows, HIDDEN) / 2,
        "b": floats(rng, directions, 2 * rows),
    }  # fmt: skip
    feeds, names = {"x": floats(rng, TIME, batch, DEPTH)}, ["x", *weights]
    if options.pop("states", False):
        states = ("h", "c") if kind == "LSTM" else ("h",)
        feeds |= {name: floats(rng, directions, batch, HIDDEN) for name in states}
        names += ["", *states]
    wanted = ["y" if outputs != "last" else "", "last" if outputs != "sequence" else ""]
    node = helper.make_node(kind, names, wanted, hidden_size=HIDDEN, **options)
    return model([node], feeds, weights, [name for name in wanted if name], opset=14), feeds


def loops(graph: Graph) -> int:
    return sum(node.op == "WHILE" for node in graph.nodes)


CASES: list[tuple[str, int, str, dict[str, Any]]] = [
    ("LSTM", 1, "both", {}),
    ("LSTM", 3, "last", {"direction": "reverse", "states": True}),
    ("LSTM", 2, "sequence", {"clip": 0.7}),
    ("GRU", 1, "both", {"direction": "bidirectional", "states": True}),
    ("GRU", 2, "sequence", {"linear_before_reset": 1, "direction": "reverse"}),
    ("RNN", 1, "last", {"states": True}),
]


@pytest.mark.parametrize(("kind", "batch", "outputs", "options"), CASES)
@pytest.mark.parametrize("quantize", [None, "int8", "int16x8"])
def test_a_recurrent_layer_is_a_loop(
    kind: str, batch: int, outputs: str, options: dict[str, Any], quantize: str | None
) -> None:
    proto, feeds = recurrent(kind, batch, outputs, **options)
    rng = np.random.default_rng(2)
    how: dict[str, Any] = {}
    if quantize:
        samples = [feeds, *({name: floats(rng, *x.shape) for name, x in feeds.items()} for _ in range(5))]
        how = {"quantize": quantize, "calibration": samples, "inference_type": "FLOAT32"}
    made = conversion(proto, **how)
    assert loops(made.graph) == (2 if options.get("direction") == "bidirectional" else 1)
    assert loops(made.flat) == 0
    assert len(write(made.graph)) < len(write(made.flat)) / 2
    got, want = by_ours(made.graph, feeds), by_onnxruntime(proto, feeds)
    assert all(np.array_equal(g, f) for g, f in zip(got, by_ours(made.flat, feeds), strict=True))
    if quantize is None:
        compare(got, want, 1e-5)
        assert all(np.array_equal(g, t) for g, t in zip(got, by_litert(made.graph, feeds), strict=True))
        return
    for g, w, theirs, flat in zip(got, want, by_litert(made.graph, feeds), by_litert(made.flat, feeds), strict=True):
        assert np.array_equal(theirs, flat)  # LiteRT rounds once where we round twice, in both alike
        assert np.sqrt(((g - w) ** 2).mean()) < (0.1 if quantize == "int8" else 0.01) * np.abs(w).max()


def test_without_loops_every_step_is_written_out() -> None:
    proto, feeds = recurrent("GRU", 1, "sequence")
    flat = twinfer.convert(proto, loops=False)
    assert loops(flat) == 0
    assert flat.subgraphs == ()
    compare(by_ours(flat, feeds), by_onnxruntime(proto, feeds))


def test_few_steps_stay_and_so_does_what_is_no_loop() -> None:
    """A loop that is larger than what it stands for is not made; nor is one whose steps have weights of their own."""
    rng = np.random.default_rng(1)
    proto, _ = recurrent("RNN", 1, "last")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    assert loops(twinfer.convert(proto)) == 0
    for same in (True, False):
        b = Builder("chain")
        x = b.input("x", "FLOAT32", (1, 8))
        weights = floats(rng, 8, 8)
        for _ in range(20):
            weights = weights if same else floats(rng, 8, 8)
            x = b.op("TANH", [b.op("FULLY_CONNECTED", [x, b.constant(weights), b.constant(np.zeros(8, np.float32))])])
        graph = b.graph([x])
        made = twinfer.convert(graph)
        assert loops(made) == same
        feeds = {"x": floats(rng, 1, 8)}
        assert np.array_equal(by_ours(made, feeds)[0], by_ours(graph, feeds)[0])


def test_values_that_are_used_in_the_middle_stay_outside() -> None:
    """Steps whose single values others read are not rolled; the values are right."""
    rng, b = np.random.default_rng(1), Builder("middle")
    x = b.input("x", "FLOAT32", (1, 8))
    weights, bias, values = b.constant(floats(rng, 8, 8)), b.constant(np.zeros(8, np.float32)), []
    for _ in range(12):
        x = b.op("TANH", [b.op("FULLY_CONNECTED", [x, weights, bias])])
        values.append(x)
    graph = b.graph([x, b.op("ADD", [values[4], values[6]], fused_activation_function="NONE")])
    feeds = {"x": floats(rng, 1, 8)}
    made = twinfer.convert(graph)
    assert all(np.array_equal(a, c) for a, c in zip(by_ours(made, feeds), by_ours(graph, feeds), strict=True))
