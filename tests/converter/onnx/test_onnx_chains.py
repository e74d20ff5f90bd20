"""Chains of operators with QuantizeLinear and DequantizeLinear in random places."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx_tools import Array, by_onnxruntime, floats, model, run

from twinfer.converter.onnx import read_onnx

#: Operators and attributes. A name in capitals is a constant, "x" the value so far, "first" the quantised input.
LINKS: tuple[tuple[str, tuple[str, ...], dict[str, Any]], ...] = (
    ("Add", ("x", "first"), {}),
    ("AveragePool", ("x",), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("Clip", ("x", "ZERO", "SIX"), {}),
    ("Conv", ("x", "W", "B"), {"pads": [1, 1, 1, 1], "group": 4}),
    ("LeakyRelu", ("x",), {"alpha": 0.2}),
    ("MaxPool", ("x",), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("Mul", ("x", "first"), {}),
    ("Relu", ("x",), {}),
    ("Sigmoid", ("x",), {}),
    ("Slice", ("x", "ENDS", "STARTS", "AXES", "BACK"), {}),
    ("Transpose", ("x",), {"perm": [0, 1, 3, 2]}),
)

#: The slice reads lines from the last to the first.
CONSTANTS = {
    "ZERO": np.array(0, np.float32), "SIX": np.array(6, np.float32), "ENDS": np.array([9]),
    "STARTS": np.array([-9]), "AXES": np.array([2]), "BACK": np.array([-1]),
}  # fmt: skip


def chain(rng: np.random.Generator) -> onnx.ModelProto:
    """Up to six operators, three of four with a quantised result; weights are quantised per channel."""
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, Array] = {**CONSTANTS, "B": floats(rng, 4), "Wz": np.zeros(4, np.int8)}
    constants |= {
        "Wq": rng.integers(-127, 128, (4, 1, 3, 3), np.int8),
        "Ws": rng.uniform(2e-3, 6e-3, 4).astype(np.float32),
    }
    kind = (np.int8, np.uint8)[rng.integers(2)]

    def add(op: str, inputs: list[str], **attributes: Any) -> str:
        nodes.append(helper.make_node(op, inputs, [f"v{len(nodes)}"], **attributes))
        return f"v{len(nodes) - 1}"

    def quantised(x: str, scale: float) -> str:
        by = [f"{x}_scale", f"{x}_zero"]
        zero = rng.integers(-20, 20) + (128 if kind is np.uint8 else 0)
        constants.update(zip(by, (np.array(scale, np.float32), np.array(zero, kind)), strict=True))
        return add("DequantizeLinear", [add("QuantizeLinear", [x, *by]), *by])

    places = {"W": add("DequantizeLinear", ["Wq", "Ws", "Wz"], axis=0), "first": quantised("x", 0.03)}
    x = places["first"]
    for _ in range(rng.integers(2, 7)):
        op, inputs, attributes = LINKS[rng.integers(len(LINKS))]
        x = add(op, [{**places, "x": x}.get(name, name) for name in inputs], **attributes)
        x = quantised(x, float(rng.uniform(0.02, 0.06))) if rng.random() < 0.75 else x
    return model(nodes, {"x": np.zeros((1, 4, 6, 6), np.float32)}, constants, [quantised(x, 0.05)])


def test_as_onnxruntime() -> None:
    """Roundings may differ by steps that grow on the way; few do."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        proto, x = chain(rng), floats(rng, 1, 4, 6, 6)
        (got,), (want,) = run(read_onnx(proto), {"x": x}), by_onnxruntime(proto, {"x": x})
        steps = np.abs(np.rint((got - want) / 0.05))
        assert steps.max() <= 5, seed
        assert (steps > 1).mean() < 0.15, seed
