"""For tests of the ONNX importer: models in few lines, and their outputs by ONNX Runtime and by our graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from ai_edge_litert.interpreter import Interpreter as LiteRT
from ai_edge_litert.interpreter import OpResolverType
from numpy.typing import NDArray
from onnx import helper

from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import Graph
from twinfer.runtime.registry import missing
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.write.tflite import write

Array = NDArray[Any]


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array],
    constants: Mapping[str, Array],
    outputs: Sequence[str],
    opset: int = 17,
) -> onnx.ModelProto:
    """A model of these nodes; inputs have the shapes of the arrays, outputs are left to inference."""
    graph = helper.make_graph(
        nodes,
        "net",
        [
            helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for k, v in inputs.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [onnx.numpy_helper.from_array(v, k) for k, v in constants.items()],
    )
    opsets = [helper.make_opsetid(*o) for o in (("", opset), ("com.microsoft", 1), ("ai.onnx.ml", 3))]
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=8))


def by_onnxruntime(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results: list[Array] = session.run(None, dict(feeds))
    return results


def run(graph: Graph, feeds: Mapping[str, Array]) -> list[Array]:
    """Outputs of the written file by our interpreter if it has all operators and forms, else by LiteRT."""
    if not missing(graph.nodes):
        try:
            return by_ours(graph, feeds)
        except UnsupportedOperatorError:
            pass
    return by_litert(graph, feeds)


def by_ours(graph: Graph, feeds: Mapping[str, Array]) -> list[Array]:
    """Outputs by our interpreter, with memory of its own for each tensor: placing those of many branches takes long."""
    return _run(Interpreter(model_content=write(graph), experimental_preserve_all_tensors=True), graph, feeds)


def by_litert(graph: Graph, feeds: Mapping[str, Array], resolver: str = "BUILTIN_REF") -> list[Array]:
    """Outputs by LiteRT's reference kernels, or others."""
    kind = OpResolverType[resolver]
    return _run(LiteRT(model_content=write(graph), experimental_op_resolver_type=kind), graph, feeds)


def as_litert(graph: Graph, feeds: Mapping[str, Array], steps: int) -> Array:
    """Our first output of a quantised graph that ends in DEQUANTIZE; LiteRT's differs by at most ``steps``.

    We round twice, as TFLM does; LiteRT rounds once. That may be a step per layer.
    """
    (ours, *_), (theirs, *_) = by_ours(graph, feeds), by_litert(graph, feeds)
    assert np.abs(ours - theirs).max() <= (steps + 0.01) * graph.nodes[-1].input(0).scale
    return ours


def _run(interpreter: Any, graph: Graph, feeds: Mapping[str, Array]) -> list[Array]:
    interpreter.allocate_tensors()
    for tensor, detail in zip(graph.inputs, interpreter.get_input_details(), strict=True):
        interpreter.set_tensor(detail["index"], feeds[tensor.name])
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def compare(got: Sequence[Array], want: Sequence[Array], tolerance: float = 1e-5) -> None:
    """Same shapes and types; floats within ``tolerance`` of the largest value, integers equal."""
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        if w.dtype.kind != "f":
            np.testing.assert_array_equal(g, w)
        elif w.size:
            finite = np.abs(w[np.isfinite(w)])
            np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance * max(finite.max(initial=0), 1e-3))


def floats(rng: np.random.Generator, *shape: int) -> Array:
    """Normally distributed float32 values."""
    return rng.normal(size=shape).astype(np.float32)
