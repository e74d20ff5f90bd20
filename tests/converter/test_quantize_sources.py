"""Models with small weights or several graphs through convert, and the versions of operators that it writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twinfer.bench.models.builtin import float_model, samples
from twinfer.bench.peers.engines import open_peer
from twinfer.converter.build import Builder
from twinfer.converter.convert import conversion, convert
from twinfer.converter.passes._rewrite import constant, rebuild
from twinfer.converter.table import version_of
from twinfer.runtime.errors import ModelError, ModelWarning
from twinfer.runtime.graph import Graph, Node, Quant, Tensor, walk
from twinfer.runtime.read.tflite import read, read_file
from twinfer.runtime.write.tflite import write

DATA = {"input": np.concatenate(samples("digits", 4))}


def behind_dequantize(graph: Graph, small: Any) -> Graph:
    """The graph with ``small(values)`` in place of all float constants of more than one number."""
    nodes: list[Node] = []
    for node in graph.nodes:
        inputs = list(node.inputs)
        for i, t in enumerate(inputs):
            if t is not None and t.type == "FLOAT32" and t.data is not None and t.size > 1:
                inputs[i] = replace(t, data=None, name=f"{t.name}_float")
                nodes.append(Node("DEQUANTIZE", (small(t),), (inputs[i],), {}, 3))
        nodes.append(replace(node, inputs=tuple(inputs)))
    return rebuild(graph, nodes)


def as_float16(t: Tensor) -> Tensor:
    return constant(np.asarray(t.data, np.float16), t.name)


@pytest.mark.filterwarnings("ignore:the int.* model:UserWarning", "ignore:calibration data:UserWarning")
def test_float16_weights_are_quantised_as_floats() -> None:
    """They give the same as float32 values. A model that stays float keeps the small constants."""
    graph = float_model("digits")
    half = behind_dequantize(graph, as_float16)
    rounded = [
        replace(
            node,
            inputs=tuple(
                t if t is None or t.type != "FLOAT32" or t.data is None
                else replace(t, data=np.asarray(t.data, np.float16).astype(np.float32))
                for t in node.inputs
            ),
        )
        for node in graph.nodes
    ]  # fmt: skip
    want = convert(rebuild(graph, rounded), quantize="int8", calibration=DATA)
    converted = convert(read(write(half)), quantize="int8", calibration=DATA)
    assert [n.op for n in converted.nodes] == [n.op for n in want.nodes]
    for got, wanted in zip(converted.nodes, want.nodes, strict=True):
        for g, w in zip(got.inputs, wanted.inputs, strict=True):
            assert (g is None) == (w is None)
            if g is not None and w is not None and w.data is not None:
                np.testing.assert_array_equal(g.data, w.data)
    assert len(write(convert(half))) < 0.6 * len(write(convert(graph)))


def test_int8_weights_behind_dequantize_are_found_again() -> None:
    """With a scale per channel and weights up to 127, quantising gives the same integers."""
    rng = np.random.default_rng(5)
    w = rng.integers(-127, 128, (6, 9))
    w[:, 0] = 127
    b = Builder("one")
    x = b.input("x", "FLOAT32", (1, 9))
    quant = Quant(rng.uniform(0.01, 0.1, 6).astype(np.float32), np.zeros(6, np.int64), 0)
    small = b.constant(w.astype(np.int8), quant.scale.tolist())
    wide = b.op("DEQUANTIZE", [small], shape=(6, 9), type="FLOAT32")
    graph = b.graph([b.op("FULLY_CONNECTED", [x, wide, np.zeros(6, np.float32)])])
    integer = convert(graph, quantize="int8", calibration={"x": rng.standard_normal((3, 9))})
    (node,) = integer.nodes
    np.testing.assert_array_equal(node.constant(1), w)
    np.testing.assert_allclose(node.input(1).quant.scale, quant.scale, rtol=1e-6)  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["INT8", "INT4"])
def test_hybrid_operators_become_integer_ones(kind: str) -> None:
    rng = np.random.default_rng(6)
    b = Builder("hybrid")
    x = b.input("x", "FLOAT32", (1, 8))
    w = rng.integers(-7, 8, (5, 8))
    small = b.constant(w.astype(np.int8), 0.1, type=kind)
    y = b.op("FULLY_CONNECTED", [x, small, np.ones(5, np.float32)], shape=(1, 5), asymmetric_quantize_inputs=True)
    data = rng.standard_normal((20, 8)).astype(np.float32)
    converted = conversion(b.graph([y]), quantize="int8", calibration={"x": data}, inference_type="FLOAT32")
    assert [n.op for n in converted.graph.nodes] == ["QUANTIZE", "FULLY_CONNECTED", "DEQUANTIZE"]
    peer = open_peer("tflm", write(converted.graph), 1)  # which refuses hybrid operators
    for row in data:
        np.testing.assert_allclose(peer([row[None]])[0][0], 0.1 * w @ row + 1, atol=0.05)


# -- several graphs ----------------------------------------------------------------------------------------------------


def looped(corpus: Path) -> Graph:
    return read_file(corpus / "models" / "lrt_nested_while.tflite")


def test_bodies_of_control_flow_stay_and_are_told_of(corpus: Path) -> None:
    graph = looped(corpus)
    with pytest.warns(ModelWarning, match=r"the main graph is converted, 4 subgraph\(s\) beside it stay as they are"):
        converted = convert(graph)
    for before, after in zip(graph.subgraphs, converted.subgraphs, strict=True):
        assert [n.op for n in before.nodes] == [n.op for n in after.nodes]
    x = [np.float32(3)]
    for got, want in zip(*(open_peer("litert-ref", write(g), 1)(x) for g in (converted, graph)), strict=True):
        np.testing.assert_array_equal(got, want)


# -- versions ----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::twinfer.runtime.errors.ModelWarning")
def test_versions_are_those_of_tflites_converter(corpus: Path) -> None:
    """On all models that it wrote (ai-edge-quantizer changes types but not versions). A file has one version for all
    nodes of an operator; it may be higher where float and hybrid nodes share it."""
    equal = lower = 0
    for path in sorted((corpus / "models").glob("*.tflite")):
        try:
            graph = read_file(path)
        except ModelError:
            continue
        if graph.description != "MLIR Converted." or path.stem.partition("_")[0] in ("aeq", "di8", "di16", "lrt"):
            continue
        nodes = [node for sub in walk(graph) for node in sub.nodes]
        for op in {node.op for node in nodes}:
            least = max(version_of(node) for node in nodes if node.op == op)
            has = max(node.version for node in nodes if node.op == op)
            assert least <= has, (path.stem, op)
            equal, lower = equal + (least == has), lower + (least < has)
    assert equal > 50 * lower


@pytest.mark.filterwarnings("ignore:the int.* model:UserWarning", "ignore:calibration data:UserWarning")
def test_versions_of_what_convert_writes() -> None:
    """No node of a quantised model has a lower version than it needs; higher versions stay."""
    graph = float_model("kws")
    raised = rebuild(graph, [replace(n, version=9) if n.op == "FULLY_CONNECTED" else n for n in graph.nodes])
    for mode in ("int8", "int16x8", "int4"):
        integer = convert(raised, quantize=mode, calibration={"input": np.concatenate(samples("kws", 2))})
        assert all(node.version >= version_of(node) for node in integer.nodes)
        assert [n.version for n in integer.nodes if n.op == "FULLY_CONNECTED"] == [max(9, {"int4": 10}.get(mode, 0))]
