"""Integer divisions whose divisor rounds to 0: the converter warns of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from onnx_tools import run

import twinfer
from twinfer.converter.build import Builder
from twinfer.converter.convert import conversion
from twinfer.converter.quantize.recipe import Recipe, Rule
from twinfer.runtime.graph import Graph

AXES = np.array([2], np.int32)


def layer_norm() -> Graph:
    """LayerNorm spelled out: the variance rounds to 0 long before its root does."""
    b = Builder("norm")
    x = b.input("x", "FLOAT32", (1, 8, 16))
    centred = b.op("SUB", [x, b.op("MEAN", [x, AXES], keep_dims=True)])
    variance = b.op("MEAN", [b.op("MUL", [centred, centred]), AXES], keep_dims=True)
    deviation = b.op("SQRT", [b.op("ADD", [variance, np.array([1e-5], np.float32)])])
    return b.graph([b.op("DIV", [centred, b.op("ADD", [deviation, np.array([1e-5], np.float32)])])])


def rows(least: float, most: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.normal(0, 1, (20, 8, 16)) * np.linspace(least, most, 8)[:, None]).astype(np.float32)


def quantised(data: np.ndarray, **how: Any) -> Graph:
    return twinfer.convert(layer_norm(), **{"quantize": "int8", "calibration": data, **how})


@pytest.mark.filterwarnings("ignore:the int. model.s outputs are at:twinfer.runtime.errors.ModelWarning")
def test_a_divisor_that_rounds_to_zero() -> None:
    """The row with the least variance has only int8's ends and 0, if a rule insists on int8."""
    data, forced = rows(0.1, 3), Recipe((Rule(name=".*", precision="int8"),))
    message = r"DIV -> 'div_\d+' divides by 0 in \d+ .* tensor 'add_.* --quantize auto would have all layers in int16x8"
    with pytest.warns(twinfer.ModelWarning, match=message):
        graph = quantised(data, inference_type="FLOAT32", recipe=forced)
    assert {node.op: node.output.type for node in graph.nodes}["DIV"] == "INT8"
    (y,) = run(graph, {"x": data[:1]})
    assert set(np.unique(y[0, 0])) <= {y.min(), 0, y.max()}
    assert len(np.unique(y[0, -1])) > 3


@pytest.mark.filterwarnings("ignore::twinfer.runtime.errors.ModelWarning")
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("steps", "kind"), [(2.1, "INT8"), (1.9, "FLOAT32"), (1.0, "FLOAT32")])
def test_divisors_within_two_steps_of_zero(sign: int, steps: float, kind: str) -> None:
    b = Builder("ratio")
    graph = b.graph([b.op("DIV", [b.input("x", "FLOAT32", (1, 8)), b.input("y", "FLOAT32", (1, 8))])])
    y = sign * np.linspace(steps, 255, 16, dtype=np.float32).reshape(2, 1, 8)
    integer = twinfer.convert(graph, quantize="int8", calibration={"x": y[::-1], "y": y})
    assert [node.output.type for node in integer.nodes if node.op == "DIV"] == [kind]


@pytest.mark.filterwarnings("ignore:the int. model.s outputs are at:twinfer.runtime.errors.ModelWarning")
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("per", [1, 16])
def test_divisions_by_zero_are_counted(sign: int, per: int) -> None:
    """Over all samples, one for each result; what is advised is free of them and as good as told."""
    b, rng = Builder("ratio"), np.random.default_rng(0)
    graph = b.graph([b.op("DIV", [b.input("x", "FLOAT32", (1, 8, 16)), b.input("y", "FLOAT32", (1, 8, 17 - per))])])
    y = sign * rng.uniform(1, 10, (6, 1, 8, 17 - per)).astype(np.float32)
    y[1, 0, 2, 0] = y[4, 0, 5, 0] = y[4, 0, 6, 0] = 0.004 * sign
    data = {"x": rng.normal(0, 1, (6, 1, 8, 16)).astype(np.float32), "y": y}
    with pytest.warns(twinfer.ModelWarning, match="divides by 0") as told:
        judged = conversion(graph, quantize="int8", calibration=data).quality
    half = np.abs(y).max() / 255 / 2
    assert judged is not None
    assert [(count, tensor.name) for count, tensor in judged.zeros.values()] == [(3 * per, "y")]
    said = next(str(each.message) for each in told if "divides by 0" in str(each.message))
    assert f"divides by 0 in {3 * per} elements" in said
    assert f"rounds to 0, as it does below {half:.3g} (calibration saw 0.004 or more)" in said
    assert "--quantize auto would have" in said
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        better = conversion(graph, quantize="auto", calibration=data)
    assert better.chosen is not None
    assert better.chosen.met
    assert better.quality is None or not better.quality.zeros
