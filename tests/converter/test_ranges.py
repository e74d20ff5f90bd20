"""Values of very different ranges: features with units of their own, power spectra. Integers keep what counts, or
floats compute it; in LiteRT, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRT
from ai_edge_litert.interpreter import OpResolverType

import twinfer
from twinfer.converter.build import Builder
from twinfer.converter.quantize.recipe import Recipe, Rule
from twinfer.runtime.errors import ModelWarning
from twinfer.runtime.graph import Graph
from twinfer.runtime.write.tflite import write

RNG = np.random.default_rng(3)

#: Ranges of eight features, and what they vary around.
UNITS = np.array([0.13, 0.5, 1680, 30, 5, 0.02, 200, 12], np.float32)
LEVEL = np.array([0, 1, 0, 0, 20, 3, 101325, 0], np.float32)


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def dense(b: Builder, x: Any, units: int, **options: Any) -> Any:
    return b.op("FULLY_CONNECTED", [x, floats(units, x.shape[-1]), floats(units)], shape=(1, units), **options)


def folded(normal: bool) -> Graph:
    """A network over raw features: the normalisation is in its first weights, or is still to be put there."""
    b = Builder("raw")
    x = b.input("x", "FLOAT32", (1, 8))
    w, bias = floats(16, 8), floats(16)
    if normal:
        x = b.op("MUL", [b.op("SUB", [x, LEVEL]), 1 / UNITS])
    else:
        w, bias = w / UNITS, bias - (w / UNITS) @ LEVEL
    y = b.op("FULLY_CONNECTED", [x, w, bias], shape=(1, 16), fused_activation_function="RELU")
    return b.graph([dense(b, y, 3)])


def sensors(depthwise: bool) -> Graph:
    """A convolution over time of channels with units of their own, behind a change of shape."""
    b = Builder("sensors")
    x = b.op(
        "RESHAPE", [b.input("x", "FLOAT32", (1, 20, 8)), np.array([1, 1, 20, 8], np.int32)], new_shape=(1, 1, 20, 8)
    )
    w = floats(1 if depthwise else 6, 1, 5, 8) / UNITS
    op = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
    shape = (1, 1, 16, w.shape[3 if depthwise else 0])
    y = b.op(op, [x, w, np.zeros(shape[3], np.float32)], shape=shape, padding="VALID", stride_h=1, stride_w=1)
    return b.graph([b.op("MEAN", [b.op("RELU", [y]), np.array([1, 2], np.int32)])])


def raw(*shape: int) -> Any:
    return RNG.uniform(-1, 1, (24, 1, *shape)).astype(np.float32) * UNITS + LEVEL


def by_litert(graph: Graph, rows: Any) -> Any:
    peer = LiteRT(model_content=write(graph), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    peer.allocate_tensors()
    (into,), (out,) = peer.get_input_details(), peer.get_output_details()
    results = []
    for row in rows:
        scale, zero = into["quantization"]
        least = np.iinfo(into["dtype"]).min if scale else 0
        fed = np.clip(np.rint(row / scale) + zero, least, -1 - least) if scale else row
        peer.set_tensor(into["index"], fed.astype(into["dtype"]))
        peer.invoke()
        scale, zero = out["quantization"]
        value = peer.get_tensor(out["index"]).astype(np.float64)
        results.append((value - zero) * scale if scale else value)
    return np.stack(results)


def decibels(want: Any, got: Any) -> float:
    return float(10 * np.log10(np.square(want).sum() / np.square(want - got).sum()))


@pytest.mark.parametrize("mode", ["int8", "int16x8"])
@pytest.mark.parametrize(
    ("graph", "rows"),
    [
        pytest.param(folded(False), raw(8), id="in the weights"),
        pytest.param(folded(True), raw(8), id="before the layer"),
        pytest.param(sensors(False), raw(20, 8) - LEVEL, id="convolution"),
        pytest.param(sensors(True), raw(20, 8) - LEVEL, id="depthwise"),
    ],
)
@pytest.mark.filterwarnings("ignore:the int. model.s outputs are at:twinfer.runtime.errors.ModelWarning")
@pytest.mark.filterwarnings("ignore:the int16x8 model.s outputs are at:twinfer.runtime.errors.ModelWarning")
def test_every_feature_gets_a_scale_of_its_own(graph: Graph, rows: Any, mode: str) -> None:
    want = by_litert(graph, rows)
    with pytest.warns(ModelWarning, match="input 'x' stays float32.*ranges are very different.*--inference-type"):
        integer = twinfer.convert(graph, quantize=mode, calibration=rows)
    assert integer.inputs[0].type == "FLOAT32"
    assert integer.outputs[0].type == {"int8": "INT8", "int16x8": "INT16"}[mode]
    layers = [n for n in integer.nodes if n.op in ("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D")]
    assert all(node.output.type == integer.outputs[0].type for node in layers)
    assert decibels(want, by_litert(integer, rows)) > 30
    bare = {"quantize": mode, "calibration": rows[:16], "inference_type": integer.outputs[0].type}
    with pytest.warns(ModelWarning, match="share one scale, which loses the small ones; leave inference_type"):
        forced = twinfer.convert(graph, **bare)
    assert forced.inputs[0].type == integer.outputs[0].type


def spectrum(last: str) -> Graph:
    """The power of a spectrum, and its logarithm, root or inverse root."""
    b = Builder("spectrum")
    x = b.input("x", "FLOAT32", (1, 64))
    turn = np.exp(-2j * np.pi * np.outer(np.arange(33), np.arange(64)) / 64)
    parts = [b.op("FULLY_CONNECTED", [x, w.astype(np.float32)], shape=(1, 33)) for w in (turn.real, turn.imag)]
    power = b.op("ADD", [b.op("ADD", [b.op("MUL", [p, p]) for p in parts]), np.array([1e-4], np.float32)])
    return b.graph([dense(b, b.op(last, [power]), 4)])


def tones() -> Any:
    """Loud and quiet tones in a little noise."""
    t, loud = np.arange(64), 10 ** RNG.uniform(-2, 0, (32, 1, 1))
    waves = np.cos(2 * np.pi * t * RNG.integers(1, 30, (32, 1, 1)) / 64) + RNG.normal(0, 0.03, (32, 1, 64))
    return (loud * waves).astype(np.float32)


@pytest.mark.parametrize(
    ("last", "mode", "least"),
    [("LOG", "int8", 15), ("LOG", "int16x8", 25), ("RSQRT", "int16x8", 15)],
)
@pytest.mark.filterwarnings("ignore:the int8 model:twinfer.runtime.errors.ModelWarning")
@pytest.mark.filterwarnings("ignore:the int16x8 model:twinfer.runtime.errors.ModelWarning")
def test_powers_stay_float_for_what_wants_all_of_them(last: str, mode: str, least: float) -> None:
    graph, rows = spectrum(last), tones()
    want = by_litert(graph, rows)
    integer = twinfer.convert(graph, quantize=mode, calibration=rows[:16])
    kinds = {node.op: node.output.type for node in integer.nodes}
    assert kinds[last] == kinds["ADD"] == "FLOAT32"
    assert integer.inputs[0].type == {"int8": "INT8", "int16x8": "INT16"}[mode]
    forced = Recipe((Rule(name=".*", precision=mode),))
    before = twinfer.convert(graph, quantize=mode, calibration=rows[:16], recipe=forced)
    got, lost = (decibels(want, by_litert(g, rows)) for g in (integer, before))
    assert got > max(least, lost + 6)


def test_what_integers_hold_well_stays_integer() -> None:
    """A logarithm or root of what varies little, a division by it, a network over features of one range."""
    b = Builder("plain")
    x = b.input("x", "FLOAT32", (1, 8))
    ends = [b.op(op, [x]) for op in ("LOG", "SQRT", "RSQRT", "EXP")]
    ends += [b.op("DIV", [dense(b, x, 8), x])]
    rows = RNG.uniform(1, 2, (24, 1, 8)).astype(np.float32)
    integer = twinfer.convert(b.graph(ends), quantize="int8", calibration=rows)
    assert {node.output.type for node in integer.nodes} == {"INT8"}


def test_values_below_every_scale_stay_float() -> None:
    b = Builder("tiny")
    x = b.input("x", "FLOAT32", (1, 8))
    graph, rows = b.graph([b.op("RELU", [x])]), floats(8, 1, 8) * np.float32(1e-30)
    integer = twinfer.convert(graph, quantize="int8", calibration=rows, inference_type="FLOAT32")
    assert [node.output.type for node in integer.nodes] == ["FLOAT32"]


def test_outputs_that_never_change_are_told() -> None:
    """Images from 0 to 255 for a network trained on 0 to 1: everything saturates."""
    b = Builder("saturated")
    x = b.input("x", "FLOAT32", (1, 8))
    y = b.op("FULLY_CONNECTED", [x, np.abs(floats(4, 8))], shape=(1, 4), fused_activation_function="RELU6")
    rows = RNG.integers(30, 256, (12, 1, 8)).astype(np.float32)
    with pytest.warns(ModelWarning, match=r"output '.*' is the same for all 12 .*'x' from 3\d to 25\d"):
        twinfer.convert(b.graph([y]), quantize="int8", calibration=rows)
