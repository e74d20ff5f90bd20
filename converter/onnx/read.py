"""``read_onnx``: an ONNX model -> ``Graph``, float and in TFLite's terms, convolutions in NHWC between transposes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from google.protobuf.message import DecodeError

from twinfer.converter import OnnxFile
from twinfer.converter.onnx.bodies import inner_graphs
from twinfer.converter.onnx.model import Model
from twinfer.converter.onnx.versions import KNOWN, raised
from twinfer.converter.passes.nhwc_io import CHANNELS_FIRST
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Graph
from twinfer.runtime.read.files import read_bytes

#: How many nodes functions may become. Functions that call functions can double a model per line of the file.
MOST_NODES = 1_000_000

Source = str | os.PathLike[str] | bytes | onnx.ModelProto | OnnxFile

#: What onnx and protobuf raise for a damaged file.
_DAMAGE = (DecodeError, OSError, onnx.checker.ValidationError, ValueError)


def read_onnx(
    source: Source,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> Graph:
    """Reads a model from a path, a file that is parsed already, a file's bytes or a ModelProto.

    ``shapes`` gives inputs a static shape; those with open dimensions need one, but for the batch, which is 1 then.
    ``constants`` makes inputs constants, from which shapes and the branch of an If may follow. Inputs and outputs keep
    their names, order, types and layout (NCHW); a signature ``serving_default`` names them. What depends on constants
    alone is computed here. Quantised models (QDQ, QLinear…) keep their scales; their uint8 becomes int8 inside.

    Raises ModelError for a damaged model or weights with NaN or infinity, InvalidArgumentError for shapes and constants
    that do not fit or a file that cannot be read, and UnsupportedOperatorError once for all operators that cannot be
    expressed, with node names and counts.
    """
    model = raised(_usual_domain(_load(source)))
    _check(model)
    graph = Model(_inline(model), shapes or {}, constants or {}).graph()
    return replace(graph, extra={CHANNELS_FIRST: {t.name for t in (*graph.inputs, *graph.outputs)}})


def open_onnx(path: str | os.PathLike[str]) -> OnnxFile:
    """The file, parsed, and the files beside it that hold values of its constants; these are read later.

    Raises ModelError for a damaged file, InvalidArgumentError for one that cannot be read.
    """
    model = _parse(str(path), read_bytes(path))
    return OnnxFile(path, model, tuple(Path(path).parent / name for name in _external(model)))


def _load(source: Source) -> onnx.ModelProto:
    if isinstance(source, onnx.ModelProto):
        return source
    if isinstance(source, bytes):
        return _parse("the model", source)
    file = source if isinstance(source, OnnxFile) else open_onnx(source)
    model: onnx.ModelProto = file.model
    try:
        onnx.load_external_data_for_model(model, str(Path(file.path).parent))
    except _DAMAGE as error:
        raise _damaged(str(file.path), error) from None
    return model


def _parse(name: str, content: bytes) -> onnx.ModelProto:
    try:
        model: onnx.ModelProto = onnx.load_model_from_string(content)
    except _DAMAGE as error:
        raise _damaged(name, error) from None
    if not model.HasField("graph"):  # protobuf takes an empty file, too
        raise ModelError(f"{name} is not an ONNX file or damaged: it has no graph")
    return model


def _damaged(name: str, error: Exception) -> ModelError:
    return ModelError(f"{name} is not an ONNX file or damaged: {error}")


def _external(model: onnx.ModelProto) -> Iterator[str]:
    """Paths, relative to the file, of the values that it does not hold itself."""
    graphs = [*_graphs(model.graph)]
    given = [a for graph in graphs for node in graph.node for a in node.attribute]
    constants = [*(t for graph in graphs for t in graph.initializer), *(t for a in given for t in (a.t, *a.tensors))]
    entries = (entry for tensor in constants for entry in tensor.external_data)
    return (entry.value for entry in entries if entry.key == "location")


def _usual_domain(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with ONNX's own domain called "" everywhere: ONNX's checker does not know its other name, "ai.onnx"."""
    if all(each.domain != "ai.onnx" for each in _in_domains(model)):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for each in _in_domains(copy):
        each.domain = "" if each.domain == "ai.onnx" else each.domain
    return copy


def _in_domains(model: onnx.ModelProto) -> Iterator[onnx.NodeProto | onnx.OperatorSetIdProto]:
    """All nodes, those of functions and of graphs that nodes run among them, and all imports of opsets."""
    called = [node for function in model.functions for node in function.node]
    graphs = [model.graph, *(graph for node in called for graph in inner_graphs(node))]
    yield from called
    yield from (node for outer in graphs for graph in _graphs(outer) for node in graph.node)
    yield from model.opset_import
    yield from (each for function in model.functions for each in function.opset_import)


def _inline(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without functions of its own: PyTorch's exporter writes modules as such."""
    if not model.functions:
        return model
    if (count := _count_inlined(model)) > MOST_NODES:
        raise ModelError(f"the model's functions cannot be inlined: {count:,} nodes; the limit is {MOST_NODES:,}")
    try:
        return onnx.inliner.inline_local_functions(model)
    except Exception as error:  # mostly of functions that call themselves; the inliner does not say what else it raises
        raise ModelError(f"the model's functions cannot be inlined: {error}") from None


def _count_inlined(model: onnx.ModelProto) -> int:
    """How many nodes there are once function bodies replace all calls; ModelError if one calls itself."""
    bodies = {(f.domain, f.name, f.overload): [*_called(f.node)] for f in model.functions}
    counts: dict[tuple[str, str, str], int] = {}
    try:
        for name in TopologicalSorter(
            {f: {n for n in body if n in bodies} for f, body in bodies.items()}
        ).static_order():
            counts[name] = sum(counts.get(inner, 1) for inner in bodies[name])
    except CycleError as error:
        calls = " calls ".join("::".join(filter(None, name)) for name in error.args[1])
        raise ModelError(f"the model's functions cannot be inlined: {calls}") from None
    return sum(counts.get(name, 1) for name in _called(model.graph.node))


def _called(nodes: Iterable[onnx.NodeProto]) -> Iterator[tuple[str, str, str]]:
    """Domain, name and overload of every node's operator or function, also in the graphs that nodes run."""
    for node in nodes:
        yield node.domain, node.op_type, node.overload
        for inner in inner_graphs(node):
            yield from _called(inner.node)


def _check(model: onnx.ModelProto) -> None:
    """ModelError unless the nodes are sound, by ONNX's own checker."""
    opsets = {"": KNOWN, "com.microsoft": 1, **{o.domain: o.version for o in model.opset_import}}
    for graph in _graphs(model.graph):
        _check_nodes(graph, model.ir_version, opsets)
        for tensor in graph.initializer:
            _check_finite(tensor)


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph, and the graphs that its nodes run."""
    yield graph
    for node in graph.node:
        for inner in inner_graphs(node):
            yield from _graphs(inner)


def _check_nodes(graph: onnx.GraphProto, ir_version: int, opsets: dict[str, int]) -> None:
    """Checks node by node: the checker of whole models refuses models that leave the shape of an output open."""
    context = onnx.checker.C.CheckerContext()
    for node in graph.node:
        # The checker calls the form before opset 21 deprecated, but files have it.
        if node.op_type == "GroupNormalization" and opsets[""] < 21:
            continue
        if node.op_type == "SimplifiedLayerNormalization":  # ONNX Runtime's optimiser writes it as one of ONNX
            continue
        try:
            context.ir_version, context.opset_imports = ir_version, opsets
            onnx.checker.check_node(_alone(node), context)
        except (onnx.checker.ValidationError, TypeError, ValueError) as error:
            raise ModelError(f"node {node.op_type} {node.name or list(node.output)} is damaged: {error}") from None


def _alone(node: onnx.NodeProto) -> onnx.NodeProto:
    """The node with empty graphs: nodes inside these may read names around them, which the checker does not know."""
    if not inner_graphs(node):
        return node
    bare = onnx.NodeProto()
    bare.CopyFrom(node)
    for graph in inner_graphs(bare):
        del graph.node[:], graph.output[:]
    return bare


def _check_finite(tensor: onnx.TensorProto) -> None:
    """ModelError for values that cannot be read or computed with; limits and masks may be infinite."""
    try:
        data = onnx.numpy_helper.to_array(tensor)
    except (LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise ModelError(f"initializer {tensor.name!r} {list(tensor.dims)} is damaged: {error}") from None
    if data.dtype.kind != "f":
        return
    masks = data.size == 1 or bool(((data == 0) | (data == -np.inf)).all())  # a limit, or added to scores to hide them
    bad = int((np.isnan(data) if masks else ~np.isfinite(data)).sum())
    if bad:
        raise ModelError(f"initializer {tensor.name!r} {list(data.shape)} has {bad} values that are NaN or infinite")
