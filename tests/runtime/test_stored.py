"""Constants that are stored sparsely, in float16 or in few bits, against LiteRT's reference kernels."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from cases import outputs_of

from twinfer.bench.peers.engines import open_peer
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Array, Graph, Node, Quant, Tensor
from twinfer.runtime.op import Shape, along, tensor
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.packed import pack
from twinfer.runtime.read.sparse import element_places
from twinfer.runtime.read.tflite import read
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.session import Session
from twinfer.runtime.stored import plain_constants
from twinfer.runtime.target import DSP, GENERIC, HOST
from twinfer.runtime.write.tflite import write

#: Traversal order, block map, block sizes, and which levels are sparse.
FORMS: tuple[tuple[Shape, Shape, Shape, Shape], ...] = (
    ((0, 1), (), (), (1,)),
    ((1, 0), (), (), (1,)),
    ((0, 1), (), (), (0, 1)),
    ((0, 1, 2), (1,), (4,), (1,)),
    ((0, 1, 2, 3), (0, 1), (2, 4), (1,)),
    ((1, 0, 3, 2), (0, 1), (2, 4), (0, 1)),
    ((1, 0, 2), (0,), (3,), (1,)),
)


def encoded(values: Array, form: tuple[Shape, Shape, Shape, Shape]) -> tuple[Array, dict[str, Any]]:
    """What is stored of an array, and its sparsity: a walk over all indices in order, as the format is defined."""
    order, blocks, sizes, sparse = form
    rank = values.ndim
    extents = [*values.shape, *sizes]
    for b, dimension in enumerate(blocks):
        extents[dimension] //= sizes[b]
    levels: list[dict[str, Any]] = [
        {"segments": [0], "indices": []} if i in sparse else {"dense": extents[d]} for i, d in enumerate(order)
    ]
    stored: list[Any] = []

    def part(index: dict[int, int]) -> Array:
        """The elements whose indices begin so."""
        axes: list[Any] = []
        for d in range(rank):
            b = blocks.index(d) if d in blocks else None
            size = 1 if b is None else sizes[b]
            outer = [index[d]] if d in index else range(extents[d])
            inner = range(size) if b is None or rank + b not in index else [index[rank + b]]
            axes.append([o * size + i for o, i in product(outer, inner)])
        return values[np.ix_(*axes)]

    def walk(level: int, index: dict[int, int]) -> None:
        if level == len(order):
            stored.append(part(index).item())
            return
        kept = [
            i
            for i in range(extents[order[level]])
            if "dense" in levels[level] or part({**index, order[level]: i}).any()
        ]
        for i in kept:
            walk(level + 1, {**index, order[level]: i})
        if "indices" in levels[level]:
            levels[level]["indices"] += kept
            levels[level]["segments"].append(len(levels[level]["indices"]))

    walk(0, {})
    metadata = tuple(
        {"format": "DENSE", "dense_size": one["dense"], "array_segments": None, "array_indices": None}
        if "dense" in one
        else {
            "format": "SPARSE_CSR", "dense_size": 0,
            "array_segments": ("Int32Vector", {"values": tuple(one["segments"])}),
            "array_indices": ("Uint8Vector", {"values": bytes(one["indices"])}),
        }
        for one in levels
    )  # fmt: skip
    return np.array(stored, values.dtype), {"traversal_order": order, "block_map": blocks, "dim_metadata": metadata}


def sparse(values: Array, type: str, form: Any, quant: Quant | None = None) -> Tensor:
    data, sparsity = encoded(values, form)
    raw = np.frombuffer(data.tobytes(), np.uint8)
    return Tensor("w", type, values.shape, quant, raw, extra=MappingProxyType({"sparsity": sparsity}))


def thinned(seed: int, shape: Shape = (12, 8)) -> Array:
    rng = np.random.default_rng(seed)
    values = rng.integers(-127, 128, shape)
    blocks = rng.random((shape[0] // 2, shape[1] // 4)) < 0.4
    return values * np.kron(blocks, np.ones((2, 4), int)) * (rng.random(shape) < 0.8)


def dense_graph(w: Tensor, *before: Node, bias: bool = True) -> Graph:
    """A FULLY_CONNECTED over the weights, behind nodes that make them."""
    weights = before[-1].output if before else w
    integer = weights.type == "INT8"
    x = tensor((3, w.shape[1]), *(("INT8", 0.05, 3) if integer else ("FLOAT32",)), name="x")
    y = tensor((3, w.shape[0]), *(("INT8", 0.4, -4) if integer else ("FLOAT32",)), name="y")
    zeros = np.zeros(w.shape[0])
    b = tensor(zeros.shape, *(("INT32", 0.0005) if integer else ("FLOAT32",)), data=zeros, name="b")
    options = {"fused_activation_function": "NONE", "weights_format": "DEFAULT", "keep_num_dims": False}
    node = Node("FULLY_CONNECTED", (x, weights, b), (y,), options, version=8 if w.extra else 4)
    between = tuple(node.output for node in before)
    return Graph("stored", (x, w, *between, b, y), (*before, node), (x,), (y,))


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
    assert [step.call.kernel for step in make_plan(graph).steps] == ["tw_fully_connected_wide_f32"]
    same_as_litert(graph, rng.standard_normal((3, 8)).astype(np.float32), 1e-6)


def test_a_folded_output_is_still_an_output() -> None:
    w = tensor((2, 3), "FLOAT16", data=np.arange(6), name="w")
    y = tensor((2, 3), name="y")
    engine = Interpreter.from_graph(Graph("m", (w, y), (Node("DEQUANTIZE", (w,), (y,)),), (), (y,)))
    engine.allocate_tensors()
    engine.invoke()
    np.testing.assert_array_equal(engine.get_tensor(1), np.arange(6).reshape(2, 3))


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
        (changed(good, 1, array_indices=None), "without segments or indices"),
        (changed(good, 1, array_segments=vector(0, *[24] * 12), array_indices=vector(*[0] * 24)), "bytes are stored"),
    ):
        damaged = replace(w, extra=MappingProxyType({"sparsity": bad}))
        with pytest.raises(ModelError, match=message):
            make_plan(dense_graph(damaged))


def test_few_bits() -> None:
    """INT4 and INT2 weights of a DEQUANTIZE, per tensor."""
    for type, bits in (("INT4", 4), ("INT2", 2)):
        values = np.random.default_rng(10).integers(-(1 << bits - 1), 1 << bits - 1, (12, 8))
        quant = along(tensor((12, 8), "INT8", 0.07), 0).quant
        w = Tensor("w", type, (12, 8), quant, pack(values, bits))
        graph = dense_graph(w, Node("DEQUANTIZE", (w,), (tensor(w.shape, name="wide"),), version=6))
        same_as_litert(graph, np.random.default_rng(11).standard_normal((3, 8)).astype(np.float32), 1e-5)
