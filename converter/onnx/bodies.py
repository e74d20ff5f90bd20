"""Operators that ONNX itself defines by other operators: Attention, RMSNormalization, losses. Whoever reads a model may
read these instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
import onnx

from twinfer.runtime.graph import DTYPES, Tensor


@dataclass(frozen=True)
class Body:
    """The operators that define one node: ``inputs`` and ``outputs`` are their names for the node's."""

    nodes: Sequence[onnx.NodeProto]
    inputs: Sequence[str]
    outputs: Sequence[str]
    opsets: Mapping[str, int]


def is_defined(proto: onnx.NodeProto, opset: int) -> bool:
    """Whether ONNX defines the node's operator by others, for inputs of some types at least."""
    try:
        schema: Any = onnx.defs.get_schema(proto.op_type, opset, proto.domain)
    except onnx.defs.SchemaError:
        return False
    versions = (*schema.function_opset_versions, *schema.context_dependent_function_opset_versions)
    return any(version <= opset for version in versions)


def body_of(proto: onnx.NodeProto, inputs: Sequence[Tensor | None], opset: int) -> Body | None:
    """The body of the node's operator for inputs of these types and shapes; None if ONNX has none.

    Attributes that the body refers to are put in, and inputs that the node leaves out are left out there, too.
    """
    try:
        schema = onnx.defs.get_schema(proto.op_type, opset, proto.domain)
        text = _function(schema, proto, inputs, opset)
    except (onnx.defs.SchemaError, RuntimeError, TypeError, ValueError):
        return None
    if not text:
        return None
    function = onnx.FunctionProto.FromString(text)
    given = {a.name: a for a in proto.attribute}
    default = {a.name: a.default_value for a in schema.attributes.values() if a.default_value.type}
    attributes = {**default, **{a.name: a for a in function.attribute_proto}, **given}
    absent = {name for i, name in enumerate(function.input) if i >= len(inputs) or inputs[i] is None}
    _bind(function.node, attributes, absent)
    opsets = {o.domain: o.version for o in function.opset_import}
    return Body(function.node, function.input, function.output, opsets)


def _function(schema: Any, proto: onnx.NodeProto, inputs: Sequence[Tensor | None], opset: int) -> bytes:
    """A FunctionProto as bytes, none if there is none for these inputs: the last one that the opset has."""
    version = max((v for v in schema.function_opset_versions if v <= opset), default=None)
    if version is not None:
        return bytes(schema.get_function_with_opset_version(version))
    version = max((v for v in schema.context_dependent_function_opset_versions if v <= opset), default=None)
    if version is None:
        return b""
    types = [onnx.TypeProto() if tensor is None else _type(tensor) for tensor in inputs]
    texts = [each.SerializeToString() for each in types]
    return bytes(schema.get_context_dependent_function_with_opset_version(version, proto.SerializeToString(), texts))


def _type(tensor: Tensor) -> onnx.TypeProto:
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(DTYPES[tensor.type]))
    return onnx.helper.make_tensor_type_proto(kind, tensor.shape)


def _bind(nodes: Iterable[onnx.NodeProto], attributes: Mapping[str, onnx.AttributeProto], absent: set[str]) -> None:
    """Puts attributes in the place of references to them, and nothing in the place of absent inputs."""
    for node in nodes:
        node.input[:] = ["" if name in absent else name for name in node.input]
        bound = [attribute for a in node.attribute if (attribute := _bound(a, attributes)) is not None]
        del node.attribute[:]
        node.attribute.extend(bound)
        for graph in inner_graphs(node):
            _bind(graph.node, attributes, absent)


def _bound(attribute: onnx.AttributeProto, attributes: Mapping[str, onnx.AttributeProto]) -> onnx.AttributeProto | None:
    if not attribute.ref_attr_name:
        return attribute
    if attribute.ref_attr_name not in attributes:
        return None
    copy = onnx.AttributeProto()
    copy.CopyFrom(attributes[attribute.ref_attr_name])
    copy.name = attribute.name
    return copy


def inner_graphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs that a node runs."""
    return [graph for a in node.attribute for graph in (*([a.g] if a.HasField("g") else []), *a.graphs)]


def outer_names(graph: onnx.GraphProto) -> Iterator[str]:
    """The names that a graph reads and does not write: values of the graph around it, and of those around that."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        read = [*node.input, *(name for inner in inner_graphs(node) for name in outer_names(inner))]
        yield from (name for name in read if name and name not in own)
        own.update(node.output)
    yield from (value.name for value in graph.output if value.name not in own)


def in_order(nodes: Sequence[onnx.NodeProto]) -> Sequence[onnx.NodeProto]:
    """The nodes, each behind those whose results it reads. ONNX asks for that, but ONNX Runtime takes any order, and
    its converter to halves writes casts of inputs last. Where there is no such order they stay."""
    makers = {name: i for i, node in enumerate(nodes) for name in node.output}
    names = [[*node.input, *(n for g in inner_graphs(node) for n in outer_names(g))] for node in nodes]
    before = {i: sorted({makers[name] for name in names[i] if name and name in makers}) for i in range(len(nodes))}
    if all(not earlier or earlier[-1] < i for i, earlier in before.items()):
        return nodes
    try:
        return [nodes[i] for i in TopologicalSorter(before).static_order()]
    except CycleError:
        return nodes
