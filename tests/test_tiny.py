"""twinfer from one end to the other in a hundred lines: read it first, from top to bottom.

A float model is made, converted to int8, planned, interpreted, and compiled. The integers of both engines are those of
a reference in numpy that is written out here: what TFLite's operators mean, with nothing of twinfer in it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import twinfer
from twinfer import CompiledModel, Interpreter
from twinfer.converter.build import Builder
from twinfer.runtime.graph import Array, Graph, Node, Tensor

SAMPLES = np.random.default_rng(1).uniform(-1, 1, (32, 1, 6)).astype(np.float32)


def float_model() -> Graph:
    """A classifier: two dense layers of floats, the first with ReLU."""
    b, rng = Builder("tiny"), np.random.default_rng(2)
    x = b.input("x", "FLOAT32", (1, 6))
    w1, b1 = rng.normal(0, 0.5, (5, 6)).astype(np.float32), rng.normal(0, 0.1, 5).astype(np.float32)
    w2, b2 = rng.normal(0, 0.5, (3, 5)).astype(np.float32), rng.normal(0, 0.1, 3).astype(np.float32)
    hidden = b.op("FULLY_CONNECTED", [x, w1, b1], shape=(1, 5), fused_activation_function="RELU")
    return b.graph([b.op("FULLY_CONNECTED", [hidden, w2, b2], shape=(1, 3), fused_activation_function="NONE")])


def int8_model() -> Graph:
    """The same in int8: the ranges of its values are those that it has over the samples."""
    return twinfer.convert(float_model(), quantize="int8", calibration={"x": SAMPLES})


# -- what the integers mean --------------------------------------------------------------------------------------------


def requantized(total: int, scale: float) -> int:
    """total * scale as TFLM rounds it: a multiplier of 31 bits, rounded, and a shift to the right, rounded.

    Halves go up in the first rounding and away from zero in the second.
    """
    fraction, exponent = np.frexp(scale)
    product = total * int(np.round(fraction * 2**31))
    high = (product + (1 << 30)) >> 31
    shift = -int(exponent)
    assert shift > 0, "scales of layers are below 1"
    size = (abs(high) + (1 << (shift - 1))) >> shift
    return size if high >= 0 else -size


def dense(x: Array, node: Node) -> Array:
    """sum((x - zero of x) * w) + bias for each output, rescaled, put at the output's zero, and cut off at its ends."""
    x_t, w_t, b_t, y_t = node.input(0), node.input(1), node.input(2), node.output
    low = y_t.zero if node.options["fused_activation_function"] == "RELU" else -128
    weights, bias = w_t.data.astype(int), b_t.data.astype(int)
    scales = np.broadcast_to(w_t.quant.scale, len(weights))  # one for all channels, or one each
    out = []
    for row, start, scale in zip(weights, bias, scales, strict=True):
        total = int(((x.astype(int) - x_t.zero) * row).sum() + start)
        real = float(np.float64(x_t.scale) * np.float64(scale) / np.float64(y_t.scale))
        out.append(min(max(requantized(total, real) + y_t.zero, low), 127))
    return np.array([out], np.int8)


def stored(value: Array, tensor: Tensor) -> Array:
    """Floats as a tensor's integers."""
    return np.clip(np.round(value / tensor.scale) + tensor.zero, -128, 127).astype(np.int8)


# -- the specification -------------------------------------------------------------------------------------------------


def test_interpreted_compiled_and_numpy_give_the_same_bits(tmp_path: Path) -> None:
    graph = int8_model()
    graph.save(tmp_path / "tiny.tflite")
    engines = [kind(model_path=tmp_path / "tiny.tflite") for kind in (Interpreter, CompiledModel)]
    for engine in engines:
        engine.allocate_tensors()
    for sample in SAMPLES:
        want = x = stored(sample, graph.inputs[0])
        for node in graph.nodes:
            want = dense(want, node)
        for engine in engines:
            engine.set_tensor(engine.get_input_details()[0]["index"], x)
            engine.invoke()
            np.testing.assert_array_equal(engine.get_tensor(engine.get_output_details()[0]["index"]), want)


def test_the_integers_are_near_the_floats() -> None:
    floats, integers = float_model(), int8_model()
    (first, second) = floats.nodes
    for sample in SAMPLES:
        hidden = np.maximum(sample @ first.input(1).data.T + first.input(2).data, 0)
        want = hidden @ second.input(1).data.T + second.input(2).data
        got = stored(sample, integers.inputs[0])
        for node in integers.nodes:
            got = dense(got, node)
        y = integers.outputs[0]
        assert np.abs((got - np.float64(y.zero)) * y.scale - want).max() < 4 * y.scale


@pytest.mark.parametrize("cut", [0, 5, 40, 300])
def test_a_bad_file_is_refused(cut: int, tmp_path: Path) -> None:
    int8_model().save(tmp_path / "tiny.tflite")
    (tmp_path / "bad.tflite").write_bytes((tmp_path / "tiny.tflite").read_bytes()[:cut])
    for kind in (Interpreter, CompiledModel):
        with pytest.raises(twinfer.ModelError, match=r"^bad: "):
            kind(model_path=tmp_path / "bad.tflite").allocate_tensors()
