"""Integer divisions whose divisor rounds to 0: the converter warns of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from onnx_tools import run

import twinfer
from twinfer.converter.build import Builder
from twinfer.converter.quantize.recipe import Choice, Recipe, Rule
from twinfer.runtime.graph import Graph

AXES = np.array([2], np.int32)


def layer_norm() -> Graph:
    """LayerNorm spelled out: the variance rounds to 0 long before its root does."""
    b = Builder("norm")
    x = b.input("x", "FLOAT32", (1, 8, 16))
    centred = b.op("SUB", [x, b.op("MEAN", [x, AXES], keep_dims=True)])
    variance = b.op("MEAN", [b.op("MUL", [centred, centred]), AXES], keep_dims=True)
    deviation = b.op("SQRT", [b.op("ADD", [variance, np.array([1e-5], np.float32)])])
    return b.graph([b.op("DIV", [centred, deviation])])


def rows(least: float, most: float) -> np.ndarray:
    """Samples whose rows have standard deviations between the two."""
    rng = np.random.default_rng(0)
    return (rng.normal(0, 1, (20, 8, 16)) * np.linspace(least, most, 8)[:, None]).astype(np.float32)


def quantised(data: np.ndarray, **how: Any) -> Graph:
    return twinfer.convert(layer_norm(), **{"quantize": "int8", "calibration": data, **how})


@pytest.mark.filterwarnings("ignore:the int. model.s outputs are at:twinfer.runtime.errors.ModelWarning")
def test_a_divisor_that_rounds_to_zero() -> None:
    """The row with the least variance has only int8's ends and 0."""
    data = rows(0.1, 3)
    with pytest.warns(twinfer.ModelWarning, match=r"DIV -> 'div_\d+' divides by 0 in \d+ .* tensor 'add_.* int16x8 \("):
        graph = quantised(data, inference_type="FLOAT32")
    assert {node.op: node.output.type for node in graph.nodes}["DIV"] == "INT8"
    (y,) = run(graph, {"x": data[:1]})
    assert set(np.unique(y[0, 0])) <= {y.min(), 0, y.max()}
    assert len(np.unique(y[0, -1])) > 3


def test_what_helps() -> None:
    """int16x8, a recipe, and data that stay away from 0."""
    kept = Recipe(tuple(Rule(operator=op, precision="float") for op in ("MUL", "MEAN", "ADD", "SQRT", "DIV")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quantised(rows(0.1, 3), quantize="int16x8")
        quantised(rows(0.1, 3), recipe=kept)
        quantised(rows(1, 2))


@pytest.mark.filterwarnings("ignore:the int. model.s outputs are at:twinfer.runtime.errors.ModelWarning")
def test_a_division_that_stays_float_divides_by_what_was_rounded() -> None:
    kept = Recipe((Rule(operator="DIV", precision="float"),), Choice("int8"))
    with pytest.warns(twinfer.ModelWarning, match="divides by 0 .*gives infinity or NaN then: quantise to int16x8"):
        assert quantised(rows(0.1, 3), recipe=kept).nodes[-2].op == "DIV"
