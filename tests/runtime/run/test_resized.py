"""Models whose batch is open, at several batches, against LiteRT: uint8, few bits, sparse and float16 weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from stored_models import FORMS, dense_graph, sparse, thinned
from unsigned_nets import NETS

from twinfer.runtime.graph import Graph, Node, Quant, Tensor
from twinfer.runtime.op import tensor
from twinfer.runtime.read.packed import pack
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.write.tflite import write


def opened(graph: Graph) -> Graph:
    """The graph with the first dimension of all activations open; a RESHAPE keeps it."""
    new: dict[Tensor, Tensor] = {}
    for node in graph.nodes:
        for t in (*node.inputs, *node.outputs):
            if t is not None and t.data is None:
                new[t] = replace(t, shape_signature=(-1, *t.shape[1:]))
            elif t is not None and node.op == "RESHAPE" and t is node.inputs[1]:
                new[t] = replace(t, data=np.array([-1, *t.data[1:]], np.int32))  # type: ignore[index]
    tensors = tuple(new.get(t, t) for t in graph.tensors)
    nodes = tuple(
        replace(
            node,
            inputs=tuple(None if t is None else new.get(t, t) for t in node.inputs),
            outputs=tuple(new[t] for t in node.outputs),
            options={k: v for k, v in node.options.items() if k != "new_shape"},
        )
        for node in graph.nodes
    )
    ends = {"inputs": tuple(new[t] for t in graph.inputs), "outputs": tuple(new[t] for t in graph.outputs)}
    return replace(graph, tensors=tensors, nodes=nodes, **ends)


def few_bits() -> Graph:
    values = np.random.default_rng(1).integers(-8, 8, (5, 8))
    return dense_graph(Tensor("w", "INT4", (5, 8), Quant.per_tensor(0.02), pack(values, 4)))


def float16() -> Graph:
    w = tensor((12, 8), "FLOAT16", data=np.random.default_rng(2).standard_normal((12, 8)), name="w")
    return dense_graph(w, Node("DEQUANTIZE", (w,), (tensor(w.shape, name="wide"),), version=3))


def densified() -> Graph:
    w = sparse(thinned(3).astype(np.float32), "FLOAT32", FORMS[4])
    return dense_graph(w, Node("DENSIFY", (w,), (tensor(w.shape, name="dense"),)))


MODELS = {**NETS, "few_bits": few_bits, "float16": float16, "densified": densified}


def at_batch(interpreter: Any, value: np.ndarray) -> list[Any]:
    at = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(at, value.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(at, value)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


@pytest.mark.parametrize("name", MODELS)
def test_batches_in_turn(name: str) -> None:
    from ai_edge_litert.interpreter import Interpreter as Theirs
    from ai_edge_litert.interpreter import OpResolverType

    graph = opened(MODELS[name]())
    content = write(graph)
    ours = Interpreter(model_content=content)
    theirs: Any = Theirs(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    rng = np.random.default_rng(4)
    x = graph.inputs[0]
    for batch in (3, 1, 5, 3):
        shape = (batch, *x.shape[1:])
        wide = rng.integers(0, 256, shape) if x.type == "UINT8" else rng.standard_normal(shape)
        value = np.asarray(wide).astype(x.dtype)
        for got, want, tensor_ in zip(at_batch(ours, value), at_batch(theirs, value), graph.outputs, strict=True):
            assert got.shape == want.shape == (batch, *tensor_.shape[1:])
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 if got.dtype.kind == "f" else 0)
