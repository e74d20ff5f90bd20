"""Functions that TFLite has no operator for, and integers that it does not compute in, against numpy: values far out,
near zero, and of all types."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx_tools import Array, by_litert, by_ours, compare, model

from twinfer.converter.onnx import read_onnx
from twinfer.runtime.graph import Graph

_MAGNITUDES = np.concatenate([np.geomspace(1e-30, 1e-3, 40), np.linspace(1e-3, 12, 600), np.geomspace(12, 3e38, 60)])
WIDE = np.concatenate([-_MAGNITUDES[::-1], [0], _MAGNITUDES]).astype(np.float32)
UNIT = np.concatenate([np.linspace(-1, 1, 401), 1 - np.geomspace(1e-7, 1e-2, 30), np.geomspace(1e-30, 1e-2, 30)])
SMALL = WIDE[np.abs(WIDE) < 89]

#: Operator -> its inputs, and their exact values.
FUNCTIONS: dict[str, tuple[Array, Callable[[Array], Array]]] = {
    "Acos": (UNIT, np.arccos),
    "Acosh": (1 + _MAGNITUDES, np.arccosh),
    "Asin": (UNIT, np.arcsin),
    "Asinh": (WIDE, np.arcsinh),
    "Atan": (np.append(WIDE, np.inf), np.arctan),
    "Atanh": (UNIT[np.abs(UNIT) < 1], np.arctanh),  # DIV gives no infinity
    "Cosh": (SMALL, np.cosh),
    "Sinh": (SMALL, np.sinh),
    "Tan": (np.linspace(-1.5, 1.5, 300), np.tan),
}


by_default = partial(by_litert, resolver="BUILTIN_WITHOUT_DEFAULT_DELEGATES")  # its reference kernels lack ROUND


@pytest.mark.parametrize("op", FUNCTIONS)
def test_functions_to_a_few_places(op: str) -> None:
    values, function = FUNCTIONS[op]
    x = {"x": values.astype(np.float32)}
    with np.errstate(all="ignore"):
        want = function(x["x"].astype(np.float64))
    graph = read_onnx(model([helper.make_node(op, ["x"], ["y"])], x, {}, ["y"]))
    for got in (by_ours(graph, x)[0], by_default(graph, x)[0]):
        np.testing.assert_allclose(got, want, rtol=3e-6, atol=1e-37)


def test_erf() -> None:
    x = {"x": np.append(WIDE, np.inf).astype(np.float32)}
    graph = read_onnx(model([helper.make_node("Erf", ["x"], ["y"])], x, {}, ["y"]))
    want = np.array([math.erf(v) for v in x["x"]])
    for got in (by_ours(graph, x)[0], by_default(graph, x)[0]):
        assert np.abs(got - want).max() < 3e-7


def _numbers(kind: str, count: int, low: int = -(1 << 62), high: int = (1 << 62)) -> Array:
    info, rng = np.iinfo(kind), np.random.default_rng(5)
    wide = rng.integers(max(low, int(info.min)), min(high, int(info.max)), count, dtype=np.int64)
    return (wide >> rng.integers(0, 8 * np.dtype(kind).itemsize, count)).astype(kind)


def _cut(x: Array, y: Array) -> Array:
    """x / y towards zero, exactly."""
    exact = [abs(int(a)) // abs(int(b)) * (1 if (a < 0) == (b < 0) else -1) for a, b in zip(x, y, strict=True)]
    return np.array(exact, np.int64).astype(x.dtype)


#: Operator, its attributes -> exact results.
INTEGERS: list[tuple[str, dict[str, Any], Callable[[Array, Array], Array]]] = [
    ("Add", {}, np.add),
    ("Mul", {}, np.multiply),
    ("Div", {}, _cut),
    ("Mod", {}, np.mod),
    ("Mod", {"fmod": 1}, np.fmod),
    ("BitwiseAnd", {}, np.bitwise_and),
    ("BitwiseOr", {}, np.bitwise_or),
    ("BitwiseXor", {}, np.bitwise_xor),
    ("Max", {}, np.maximum),
]


def _same(graph: Graph, feeds: dict[str, Array], want: Array) -> None:
    for run in (by_ours, by_default):
        np.testing.assert_array_equal(run(graph, feeds)[0], want)


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
@pytest.mark.parametrize(("op", "attributes", "exact"), INTEGERS)
def test_integers(op: str, attributes: dict[str, Any], exact: Callable[[Array, Array], Array], kind: str) -> None:
    x, y = _numbers(kind, 400), _numbers(kind, 400)[::-1]
    y = np.where(y == 0, 1, y).astype(kind)
    with np.errstate(over="ignore"):
        want = exact(x, y)
    nodes = [helper.make_node(op, ["x", "y"], ["z"], **attributes)]
    _same(read_onnx(model(nodes, {"x": x, "y": y}, {}, ["z"], 22)), {"x": x, "y": y}, want)


def test_powers_of_64_bits() -> None:
    x, y = _numbers("int64", 60), np.arange(60)
    want = np.array([pow(int(a), int(b), 1 << 64) for a, b in zip(x, y, strict=True)], np.uint64).view(np.int64)
    graph = read_onnx(model([helper.make_node("Pow", ["x", "y"], ["z"])], {"x": x, "y": y}, {}, ["z"]))
    _same(graph, {"x": x, "y": y}, want)


def test_reduced_dimensions_that_alternate_with_others() -> None:
    x = {"x": np.random.default_rng(2).normal(size=(2, 3, 2, 3, 2, 3, 2)).astype(np.float32)}
    axes = {"axes": np.array([0, 2, 4, 6])}
    graph = read_onnx(model([helper.make_node("ReduceMean", ["x", "axes"], ["y"])], x, axes, ["y"], 18))
    compare(by_ours(graph, x), [x["x"].mean((0, 2, 4, 6), keepdims=True)])
