"""Models of onnxruntime's ``quantize_dynamic``: hybrid operators, whose weights stay int8."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_tools import Array, by_litert, by_onnxruntime, compare, floats, model, run
from onnxruntime.quantization import QuantType, quantize_dynamic

from twinfer.converter.convert import convert
from twinfer.converter.onnx import read_onnx
from twinfer.runtime.graph import Graph

RNG = np.random.default_rng(7)
IMAGE, ROWS, SEQUENCE = floats(RNG, 1, 4, 9, 9), floats(RNG, 3, 40), floats(RNG, 6, 1, 12)
#: Weights about zero, and weights that are mostly positive, whose uint8 has a zero point far from the middle.
EVEN, ODD = floats(RNG, 40, 24), floats(RNG, 40, 24) + 1.5


def _node(op: str, *inputs: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, ["x", *inputs], ["y"], op.lower(), **attributes)


#: Name -> node, input, constants, and the operator that has int8 weights then.
LAYERS: dict[str, tuple[onnx.NodeProto, Array, dict[str, Array], str]] = {
    "MatMul": (_node("MatMul", "w"), ROWS, {"w": EVEN}, "FULLY_CONNECTED"),
    "MatMul shifted": (_node("MatMul", "w"), ROWS, {"w": ODD}, "FULLY_CONNECTED"),
    "Gemm": (_node("Gemm", "w", "b"), ROWS, {"w": EVEN, "b": floats(RNG, 24)}, "FULLY_CONNECTED"),
    "Conv": (
        _node("Conv", "w", "b", pads=[1, 1, 1, 1]),
        np.maximum(IMAGE, 0),
        {"w": floats(RNG, 8, 4, 3, 3) + 0.4, "b": floats(RNG, 8)},
        "CONV_2D",
    ),
    "depthwise Conv": (_node("Conv", "w", group=4), IMAGE, {"w": floats(RNG, 4, 1, 3, 3)}, "DEPTHWISE_CONV_2D"),
    "Attention": (
        _node("Attention", "w", "b", domain="com.microsoft", num_heads=2),
        floats(RNG, 1, 5, 16),
        {"w": floats(RNG, 16, 48) / 4, "b": floats(RNG, 48)},
        "FULLY_CONNECTED",
    ),
    "LSTM": (
        _node("LSTM", "w", "r", "b", hidden_size=8, direction="bidirectional"),
        SEQUENCE,
        {"w": floats(RNG, 2, 32, 12), "r": floats(RNG, 2, 32, 8), "b": floats(RNG, 2, 64)},
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
    ),
}


@pytest.mark.parametrize("kind", [QuantType.QInt8, QuantType.QUInt8], ids=["int8", "uint8"])
@pytest.mark.parametrize("per_channel", [False, True], ids=["per tensor", "per channel"])
@pytest.mark.parametrize("name", LAYERS)
def test_quantize_dynamic(name: str, per_channel: bool, kind: QuantType, tmp_path: Path) -> None:
    node, x, constants, op = LAYERS[name]
    floating, path = model([node], {"x": x}, constants, ["y"]), str(tmp_path / "quantised.onnx")
    floating.graph.output[0].type.tensor_type.elem_type = 1
    quantize_dynamic(floating, path, per_channel=per_channel, weight_type=kind)
    quantised, feeds = onnx.load(path), {"x": x}
    graph = convert(path)
    found = run(graph, feeds)
    compare(found, by_onnxruntime(quantised, feeds), 0.04)
    compare(found, by_onnxruntime(floating, feeds), 0.04)
    compare(found, by_litert(graph, feeds), 1e-4)
    if op == "UNIDIRECTIONAL_SEQUENCE_LSTM" and per_channel:  # its steps, whose products know several scales
        op = "FULLY_CONNECTED"
    types = {node.input(1).type for node in graph.nodes if node.op == op}
    assert types == {"INT8"}


def _spelled(order: str) -> list[onnx.NodeProto]:
    """The nodes of a layer as different versions of onnxruntime write them."""
    begin = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z", "wz"], ["i"]),
        helper.make_node("Mul", ["ws", "s"], ["both"]),
    ]
    if order == "scale by scale":
        ends = [("Cast", ["i"], "f"), ("Mul", ["s", "f"], "m"), ("Mul", ["m", "ws"], "y")]
    elif order == "bias as integers":
        ends = [("Div", ["b", "both"], "d"), ("Floor", ["d"], "e"), ("Cast", ["e"], "c"), ("Add", ["i", "c"], "a")]
        ends += [("Cast", ["a"], "f"), ("Mul", ["both", "f"], "y")]
    else:
        ends = [("Cast", ["i"], "f"), ("Mul", ["both", "f"], "m"), ("Add", ["m", "b"], "y")]
    to = {"f": onnx.TensorProto.FLOAT, "c": onnx.TensorProto.INT32}
    rest = [helper.make_node(op, read, [y], **({"to": to[y]} if op == "Cast" else {})) for op, read, y in ends]
    return [*begin, *rest]


@pytest.mark.parametrize("order", ["scale by scale", "bias as integers", "usual"])
def test_other_spellings(order: str) -> None:
    weights = RNG.integers(0, 256, (40, 24)).astype(np.uint8)
    constants = {"w": weights, "wz": np.uint8(120), "ws": np.float32(0.01), "b": floats(RNG, 24)}
    proto = model(_spelled(order), {"x": ROWS}, {k: np.asarray(v) for k, v in constants.items()}, ["y"])
    graph = read_onnx(proto)
    compare(run(graph, {"x": ROWS}), by_onnxruntime(proto, {"x": ROWS}), 0.02)
    assert _operators(graph) <= {"FULLY_CONNECTED", "ADD"}


def _operators(graph: Graph) -> set[str]:
    return {node.op for node in graph.nodes}
