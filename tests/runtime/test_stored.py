"""Constants that are stored sparsely, in float16 or in few bits, against LiteRT's reference kernels."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from cases import outputs_of
from stored_models import FORMS, dense_graph, encoded, sparse, thinned

from twinfer.bench.peers.engines import open_peer
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Array, Graph, Node, Quant, Tensor
from twinfer.runtime.op import along, tensor
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.packed import pack
from twinfer.runtime.read.sparse import element_places
from twinfer.runtime.read.tflite import read
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.session import Session
from twinfer.runtime.stored import plain_constants
from twinfer.runtime.target import DSP, GENERIC, HOST
from twinfer.runtime.write.tflite import write


def same_as_litert(graph: Graph, value: Array, tolerance: float = 0.0) -> None:
    want = open_peer("litert-ref", write(graph), 1)([value])[0]
    for target in (HOST, GENERIC, DSP):
        (got,) = outputs_of(Session(make_plan(read(write(graph)), target), 0), [value])
        np.testing.assert_allclose(got, want, rtol=0, atol=tolerance)
    assert want.std() > 0


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_places(form: Any) -> None:
    values = thinned(3)
    stored, sparsity = encoded(values, form)
    back = np.zeros(values.size, int)
    back[element_places(values.shape, sparsity)] = stored
    np.testing.assert_array_equal(back.reshape(values.shape), values)
    assert len(stored) < values.size


@pytest.mark.parametrize("form", [f for f in FORMS if len(f[0]) == 4], ids=str)
def test_places_beyond_127(form: Any) -> None:
    """Indices and segments of a byte go up to 255."""
    values = thinned(5, (6, 240))
    stored, sparsity = encoded(values, form)
    back = np.zeros(values.size, int)
    back[element_places(values.shape, sparsity)] = stored
    np.testing.assert_array_equal(back.reshape(values.shape), values)


@pytest.mark.parametrize("type", ["FLOAT32", "INT8", "FLOAT16"])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_densify(form: Any, type: str) -> None:
    values = thinned(4).astype({"FLOAT32": np.float32, "INT8": np.int8, "FLOAT16": np.float16}[type])
    quant = Quant.per_tensor(0.01) if type == "INT8" else None
    w = sparse(values, type, form, quant)
    nodes = [Node("DENSIFY", (w,), (Tensor("dense", type, w.shape, quant),))]
    if type == "FLOAT16":
        nodes.append(Node("DEQUANTIZE", (nodes[0].output,), (tensor(w.shape, name="wide"),), version=3))
    graph = dense_graph(w, *nodes)
    value = np.random.default_rng(5).integers(-100, 100, (3, 8)).astype(graph.inputs[0].dtype)
    assert [step.node.op for step in make_plan(graph).steps] == ["FULLY_CONNECTED"]
    if type == "INT8":  # LiteRT's FULLY_CONNECTED rounds otherwise (Case.oracle of that operator): compare the weights
        (densified,) = plain_constants(graph).nodes[0].inputs[1:2]
        assert densified is not None
        np.testing.assert_array_equal(densified.data, values)
    else:
        same_as_litert(graph, value)


@pytest.mark.parametrize("type", ["FLOAT32"])
def test_sparse_weights_without_densify(type: str) -> None:
    w = sparse(thinned(6).astype(np.float32), type, FORMS[3])
    same_as_litert(dense_graph(w), np.random.default_rng(7).standard_normal((3, 8)).astype(np.float32), 1e-3)


def test_float16_weights_become_float32_and_take_the_fast_kernels() -> None:
    rng = np.random.default_rng(8)
    w = tensor((12, 8), "FLOAT16", data=rng.standard_normal((12, 8)), name="w")
    graph = dense_graph(w, Node("DEQUANTIZE", (w,), (tensor(w.shape, name="wide"),), version=3))
    assert [step.call.kernel for step in make_plan(graph).steps] == ["tw_conv2d_wide_f32"]
    same_as_litert(graph, rng.standard_normal((3, 8)).astype(np.float32), 1e-6)


def test_float16_constants_of_any_operator() -> None:
    """A bias that is added, slopes and rows of a table."""
    rng = np.random.default_rng(14)
    x, at = tensor((3, 8), name="x"), tensor((3,), "INT32", data=np.array([5, 0, 2]), name="at")
    halves = [tensor(s, "FLOAT16", data=rng.standard_normal(s), name=f"h{s}") for s in ((8,), (1, 8), (6, 8))]
    bias, slopes, rows = wide = [tensor(h.shape, name=f"w{h.shape}") for h in halves]
    nodes = [Node("DEQUANTIZE", (h,), (w,), version=3) for h, w in zip(halves, wide, strict=True)]
    *between, y = [tensor((3, 8), name=f"t{i}") for i in range(4)]
    nodes += [
        Node("ADD", (x, bias), (between[0],)),
        Node("PRELU", (between[0], slopes), (between[1],)),
        Node("GATHER", (rows, at), (between[2],), {"axis": 0, "batch_dims": 0}),
        Node("MUL", (between[1], between[2]), (y,)),
    ]
    graph = Graph("halves", (x, at, *halves, *wide, *between, y), tuple(nodes), (x,), (y,))
    assert "DEQUANTIZE" not in [step.node.op for step in make_plan(graph).steps]
    same_as_litert(graph, rng.standard_normal((3, 8)).astype(np.float32))


def test_a_folded_output_is_still_an_output() -> None:
    w = tensor((2, 3), "FLOAT16", data=np.arange(6), name="w")
    y = tensor((2, 3), name="y")
    engine = Interpreter.from_graph(Graph("m", (w, y), (Node("DEQUANTIZE", (w,), (y,)),), (), (y,)))
    engine.allocate_tensors()
    engine.invoke()
    np.testing.assert_array_equal(engine.get_tensor(1), np.arange(6).reshape(2, 3))


def test_constants_that_contradict_their_tensor() -> None:
    half = tensor((2, 3), "FLOAT16", data=np.arange(6), name="w")
    wide = Node("DEQUANTIZE", (replace(half, data=np.arange(6, dtype=np.float32)),), (tensor((2, 3), name="y"),))
    bits = Tensor("w", "INT4", (3,), Quant.per_tensor(0.1), np.zeros(3, np.uint8))
    text = Tensor("w", "STRING", (3,), None, np.zeros(3, np.uint8), extra=MappingProxyType({"sparsity": {"a": 1}}))
    for node, message in (
        (wide, r"DEQUANTIZE.*'w' FLOAT16.* is float32\[6\]"),
        (Node("DEQUANTIZE", (bits,), (tensor((3,), name="y"),)), r"'w' INT4.* has 3 bytes, 2 are needed"),
        (Node("ABS", (text,), (tensor((3,), name="y"),)), r"'w' STRING.* is stored sparsely, which its type cannot"),
    ):
        with pytest.raises(ModelError, match=message):
            plain_constants(Graph("g", (node.input(0), node.output), (node,), (), (node.output,)))


def test_a_constant_for_several_is_made_plain_once() -> None:
    w = sparse(thinned(6).astype(np.float32), "FLOAT32", FORMS[3])
    x, y, z = (tensor(w.shape, name=name) for name in "xyz")
    nodes = (Node("MUL", (x, w), (y,)), Node("ADD", (w, y), (z,)))
    graph = Graph("twice", (x, w, y, z), nodes, (x,), (z,))
    first, second = plain_constants(graph).nodes
    assert first.input(1) is second.input(0)
    value = np.random.default_rng(7).standard_normal(w.shape).astype(np.float32)
    (got,) = outputs_of(Session(make_plan(graph), 0), [value])
    np.testing.assert_array_equal(got, value * thinned(6).astype(np.float32) + thinned(6).astype(np.float32))


def changed(sparsity: Any, level: int, **fields: Any) -> Any:
    metadata = list(sparsity["dim_metadata"])
    metadata[level] = {**metadata[level], **fields}
    return {**sparsity, "dim_metadata": tuple(metadata)}


def vector(*values: int) -> Any:
    return "Int32Vector", {"values": values}


def test_damaged_sparsity_is_refused() -> None:
    w = sparse(thinned(9).astype(np.float32), "FLOAT32", FORMS[3])
    good = w.extra["sparsity"]
    for bad, message in (
        ({**good, "traversal_order": (0, 0, 2)}, "traversal order"),
        ({**good, "block_map": (5,)}, "block map"),
        (changed(good, 0, dense_size=11), "a dense level of 11"),
        (changed(good, 2, dense_size=3), "blocks of 3"),
        (changed(good, 2, dense_size=0), "blocks of 0"),
        (changed(good, 1, array_segments=vector(0, 1)), "too few"),
        (changed(good, 1, array_segments=vector(*range(13, 0, -1))), "out of order"),
        (changed(good, 1, array_segments=vector(*[-1] * 13)), "out of order"),
        (changed(good, 1, array_indices=vector(*[2] * 99)), "outside of an extent of 2"),
        (changed(good, 1, array_indices=vector(*[-1] * 99)), "outside of an extent of 2"),
        (changed(good, 1, array_segments=vector(*[0] * 12)), "too few"),
        (
            changed(good, 1, array_segments=vector(0, *[99] * 12), array_indices=vector(*[0] * 99)),
            "more elements than the shape has",
        ),
        (changed(good, 1, array_indices=None), "without segments or indices"),
        (changed(good, 1, array_segments=vector(0, *[24] * 12), array_indices=vector(*[0] * 24)), "bytes are stored"),
    ):
        damaged = replace(w, extra=MappingProxyType({"sparsity": bad}))
        with pytest.raises(ModelError, match=message):
            make_plan(dense_graph(damaged))


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_one_wrong_number_leads_to_no_place_outside(form: Any) -> None:
    """Every number of every level, changed: it is refused, or elements still lie at places of their own inside."""
    values = thinned(3)
    _, sparsity = encoded(values, form)
    refused = 0
    for level, metadata in enumerate(sparsity["dim_metadata"]):
        for name in ("array_segments", "array_indices"):
            numbers = [] if metadata[name] is None else [*metadata[name][1]["values"]]
            for i in range(0, len(numbers), 1 + len(numbers) // 12):
                for other in (-1, numbers[i] - 1, numbers[i] + 1, 7, 12, 1 << 20):
                    bad = changed(sparsity, level, **{name: vector(*numbers[:i], other, *numbers[i + 1 :])})
                    try:
                        places = element_places(values.shape, bad)
                    except ModelError:
                        refused += 1
                        continue
                    assert ((places >= 0) & (places < values.size)).all(), (level, name, i, other)
                    assert len(places) <= values.size
    assert refused > 20


def test_rows_of_few_bits_are_gathered() -> None:
    values = np.random.default_rng(12).integers(-8, 8, (6, 4))
    quant = Quant.per_tensor(0.1)
    w, rows = Tensor("w", "INT4", (6, 4), quant, pack(values, 4)), tensor((3,), "INT32", name="rows")
    some, y = Tensor("some", "INT4", (3, 4), quant), tensor((3, 4), name="y")
    nodes = (
        Node("GATHER", (w, rows), (some,), {"axis": 0, "batch_dims": 0}, version=7),
        Node("DEQUANTIZE", (some,), (y,), version=6),
    )
    graph = Graph("gather", (w, rows, some, y), nodes, (rows,), (y,))
    (got,) = outputs_of(Session(make_plan(graph), 0), [np.array([0, 5, 2], np.int32)])
    np.testing.assert_array_equal(got, values[[0, 5, 2]].astype(np.float32) * np.float32(0.1))


def test_few_bits() -> None:
    """INT4 and INT2 weights of a DEQUANTIZE, per tensor."""
    for type, bits in (("INT4", 4), ("INT2", 2)):
        values = np.random.default_rng(10).integers(-(1 << bits - 1), 1 << bits - 1, (12, 8))
        quant = along(tensor((12, 8), "INT8", 0.07), 0).quant
        w = Tensor("w", type, (12, 8), quant, pack(values, bits))
        graph = dense_graph(w, Node("DEQUANTIZE", (w,), (tensor(w.shape, name="wide"),), version=6))
        same_as_litert(graph, np.random.default_rng(11).standard_normal((3, 8)).astype(np.float32), 1e-5)


def lookup(type: str, shape: tuple[int, int], scales: list[float], y: Tensor) -> tuple[Graph, Array]:
    """An EMBEDDING_LOOKUP of rows 4, 0 and 3 of few bits, and all rows as integers."""
    bits = {"INT4": 4, "INT2": 2}[type]
    values = np.random.default_rng(15).integers(-(1 << bits - 1), 1 << bits - 1, shape)
    quant = Quant(np.array(scales, np.float32), np.zeros(len(scales), np.int64))
    w, at = Tensor("w", type, shape, quant, pack(values, bits)), tensor((3,), "INT32", name="at")
    node = Node("EMBEDDING_LOOKUP", (at, w), (y,), version=4)
    return Graph("lookup", (at, w, y), (node,), (at,), (y,)), values


@pytest.mark.parametrize("scales", [[0.02], [0.1, 0.02, 0.03, 0.04, 0.5]], ids=len)
@pytest.mark.parametrize("type", ["INT4", "INT2"])
def test_embeddings_of_few_bits(type: str, scales: list[float]) -> None:
    """Rows of whole bytes as LiteRT, and others, which it reads from the wrong place, by their values."""
    picked = np.array([4, 0, 3], np.int32)
    same_as_litert(lookup(type, (5, 8), scales, tensor((3, 8), name="y"))[0], picked)
    graph, values = lookup(type, (5, 7), scales, tensor((3, 7), name="y"))
    (got,) = outputs_of(Session(make_plan(graph), 0), [picked])
    own = np.broadcast_to(np.array(scales, np.float32), 5)[picked, None]
    np.testing.assert_array_equal(got, values[picked].astype(np.float32) * own)


def test_embeddings_of_few_bits_stay_integers() -> None:
    graph, values = lookup("INT4", (5, 8), [0.1], Tensor("some", "INT4", (3, 8), Quant.per_tensor(0.1)))
    y = tensor((3, 8), name="y")
    reader = Node("DEQUANTIZE", graph.outputs, (y,), version=6)
    graph = replace(graph, tensors=(*graph.tensors, y), nodes=(*graph.nodes, reader), outputs=(y,))
    (got,) = outputs_of(Session(make_plan(graph), 0), [np.array([4, 0, 3], np.int32)])
    np.testing.assert_array_equal(got, values[[4, 0, 3]].astype(np.float32) * np.float32(0.1))


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("type", ["INT4", "INT2"])
def test_weights_of_few_bits_beside_floats(type: str, asymmetric: bool) -> None:
    bits = {"INT4": 4, "INT2": 2}[type]
    rng = np.random.default_rng(16)
    values = rng.integers(-(1 << bits - 1), 1 << bits - 1, (6, 8))
    scales = rng.uniform(0.01, 0.03, 6).astype(np.float32)
    w = Tensor("w", type, (6, 8), Quant(scales, np.zeros(6, np.int64)), pack(values, bits))
    x, y = tensor((3, 8), name="x"), tensor((3, 6), name="y")
    options = {"asymmetric_quantize_inputs": asymmetric, "fused_activation_function": "NONE"}
    graph = Graph("hybrid", (x, w, y), (Node("FULLY_CONNECTED", (x, w), (y,), options),), (x,), (y,))
    same_as_litert(graph, rng.standard_normal((3, 8)).astype(np.float32), 1e-6)
