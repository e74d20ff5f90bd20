"""quantize="dynamic": int8 weights and float values, with the bits of LiteRT's reference kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import twinfer
from twinfer.bench.models.builtin import float_model
from twinfer.bench.peers.engines import open_peer
from twinfer.converter.build import Builder
from twinfer.converter.convert import conversion, convert
from twinfer.converter.quantize.recipe import Choice, Recipe, Rule
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph
from twinfer.runtime.write.tflite import write

RNG = np.random.default_rng(5)


def weights(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def of(op: str, shape: tuple[int, ...], *constants: Any, **options: Any) -> Graph:
    b = Builder(op)
    return b.graph([b.op(op, [b.input("x", "FLOAT32", shape), *constants], **options)])


PLAIN = {"fused_activation_function": "RELU"}
WINDOW = {**PLAIN, "padding": "SAME", "stride_w": 1, "stride_h": 1}
LAYERS = {
    "dense": of("FULLY_CONNECTED", (3, 40), weights(30, 40), weights(30), **PLAIN),
    "conv": of("CONV_2D", (1, 7, 6, 8), weights(24, 3, 3, 8), weights(24), **WINDOW),
    "pointwise": of("CONV_2D", (1, 7, 6, 8), weights(64, 1, 1, 8), weights(64), **WINDOW),
    "depthwise": of("DEPTHWISE_CONV_2D", (1, 7, 6, 8), weights(1, 3, 3, 64), weights(64), depth_multiplier=8, **WINDOW),
}


@pytest.mark.parametrize("name", LAYERS)
def test_weights_are_int8_values_are_float_and_bits_are_those_of_litert(name: str) -> None:
    graph = LAYERS[name]
    made = convert(graph, quantize="dynamic")
    content = write(made)
    layers = [node for node in made.nodes if node.optional(1) is not None and node.input(1).type == "INT8"]
    assert layers
    assert all(node.output.type == node.input(0).type == "FLOAT32" for node in layers)
    assert len(content) < 0.8 * len(write(graph))
    engine, floats = (twinfer.Interpreter(model_content=file) for file in (content, write(graph)))
    peer = open_peer("litert-ref", content, 1)
    for _ in range(4):
        x = RNG.normal(size=graph.inputs[0].shape).astype(np.float32)
        got, want = engine.run(x), floats.run(x)
        off = 2e-6 if name == "depthwise" else 0.0  # LiteRT multiplies its scales in another order there
        np.testing.assert_allclose(got, peer([x])[0].reshape(got.shape), rtol=0, atol=off)
        assert np.square(got - want).sum() < 1e-3 * np.square(want).sum()


def test_a_model_by_litert_is_the_same_but_for_the_last_bits_of_floats() -> None:
    made, x = convert(float_model("digits"), quantize="dynamic"), RNG.uniform(size=(1, 8, 8, 1)).astype(np.float32)
    assert {n.op for n in made.nodes if n.optional(1) and n.input(1).type == "INT8"} >= {"CONV_2D", "FULLY_CONNECTED"}
    got = twinfer.Interpreter(model_content=write(made)).run(x)
    np.testing.assert_allclose(got, open_peer("litert-ref", write(made), 1)([x])[0], atol=1e-5)


def test_a_rule_gives_one_layer_of_an_integer_model_float_values() -> None:
    """And a layer without such a form stays float."""
    graph = float_model("digits")
    data = {"input": RNG.uniform(size=(8, *graph.inputs[0].shape[1:])).astype(np.float32)}
    own = Recipe((Rule(operator="FULLY_CONNECTED", precision="dynamic"), Rule(operator="SOFTMAX", precision="dynamic")))
    made = convert(graph, quantize="int8", recipe=own, calibration=data)
    (dense,) = (node for node in made.nodes if node.op == "FULLY_CONNECTED")
    assert [t.type for t in (*dense.inputs[:2], dense.output)] == ["FLOAT32", "INT8", "FLOAT32"]
    assert {node.output.type for node in made.nodes if node.op == "CONV_2D"} == {"INT8"}
    assert {node.output.type for node in made.nodes if node.op == "SOFTMAX"} == {"FLOAT32"}


def test_auto_has_it_among_its_precisions() -> None:
    made = conversion(LAYERS["conv"], quantize="auto", calibration={"x": weights(24, 7, 6, 8)}, min_snr=200)
    assert made.chosen is not None
    assert made.chosen.whole.keys() == {"int8", "int16x8", "dynamic", "float"}


def test_only_integer_values_need_samples() -> None:
    own = Recipe((Rule(operator="SOFTMAX", precision="int8"),))
    with pytest.raises(InvalidArgumentError, match="needs samples"):
        convert(float_model("digits"), quantize="dynamic", recipe=Recipe(own.rules, Choice("dynamic")))
