"""One ONNX graph while it is read: values by name, nodes in order, and what cannot be expressed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.freeze import fixed, no_input
from twinfer.converter.onnx.control import CONTROL
from twinfer.converter.onnx.finish import finish
from twinfer.converter.onnx.node import Shape
from twinfer.converter.onnx.ops.move import HALVES_AND_DOUBLES, tensor_type
from twinfer.converter.onnx.reader import Reader, single
from twinfer.converter.onnx.versions import KNOWN
from twinfer.converter.open_shapes import Dims, OpenShapes
from twinfer.runtime.errors import InvalidArgumentError, ModelError, ModelWarning, UnsupportedOperatorError
from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.shapes import EXTENT_LIMIT, shape_of


def type_of(value: onnx.ValueInfoProto) -> str:
    """TFLite's name of the element type; UnsupportedOperatorError if it has none."""
    if value.type.WhichOneof("value") != "tensor_type":
        raise UnsupportedOperatorError("sequences, maps and optional values; give tensors")
    return tensor_type(value.type.tensor_type.elem_type)


def static_shape(value: onnx.ValueInfoProto, given: Sequence[int] | None) -> Shape:
    """The input's shape; InvalidArgumentError if neither the model nor ``given`` states it, or if they disagree."""
    dims = value.type.tensor_type.shape.dim if value.type.tensor_type.HasField("shape") else None
    stated = None if dims is None else [d.dim_value if _is_known(d) else None for d in dims]
    if given is None:
        if stated is None or None in stated:
            raise OpenShapes({value.name: _open(dims)})
        return tuple(int(d or 0) for d in stated)
    shape = shape_of(given)
    known = [None] * len(shape) if stated is None else stated
    pairs = zip(known, shape, strict=False)
    if len(known) != len(shape) or not all(g == s or (s is None and 0 < g < EXTENT_LIMIT) for s, g in pairs):
        said = "nothing of it" if stated is None else f"[{', '.join('?' if s is None else str(s) for s in stated)}]"
        raise InvalidArgumentError(
            f"input {value.name!r} cannot have the shape {list(shape)}: the model says {said}; "
            "open dimensions (?) must be at least 1 and below 2^31"
        )
    return shape


_ANY = onnx.TensorShapeProto.Dimension()  # an extent of which nothing is said


def _is_known(dim: onnx.TensorShapeProto.Dimension) -> bool:
    """Whether an extent is stated: some exporters write -1 for one that is open."""
    return dim.HasField("dim_value") and dim.dim_value >= 0


def _open(dims: Sequence[onnx.TensorShapeProto.Dimension] | None) -> Dims:
    """What the model says of a shape that is open."""
    return None if dims is None else [d.dim_value if _is_known(d) else d.dim_param or "?" for d in dims]


def _fixed(value: onnx.ValueInfoProto, shape: Sequence[int] | None, given: Any) -> Tensor:
    """The input as a constant, which decides dimensions that are open."""
    kind, rank = type_of(value), len(np.shape(given))
    dims = value.type.tensor_type.shape.dim if value.type.tensor_type.HasField("shape") else [_ANY] * rank
    signature = () if shape is not None else tuple(d.dim_value if _is_known(d) else -1 for d in dims)
    extents = static_shape(value, shape) if shape is not None else tuple(abs(d) for d in signature)
    tensor = fixed(Tensor(value.name, kind, extents, shape_signature=signature), given)
    if len(tensor.shape) != len(extents) or any(
        d not in (-1, n) for d, n in zip(signature, tensor.shape, strict=False)
    ):
        raise InvalidArgumentError(f"input {value.name!r} {list(signature)} cannot be a constant {list(tensor.shape)}")
    return tensor


class Model:
    """A whole model: inputs and initializers, the nodes between, and outputs. ``graph`` finishes. Raises as
    ``read_onnx``."""

    def __init__(
        self, proto: onnx.ModelProto, shapes: Mapping[str, Sequence[int]], constants: Mapping[str, Any]
    ) -> None:
        self.proto = proto
        opsets = {"": KNOWN, **{o.domain: o.version for o in proto.opset_import}}
        self.reader = Reader(Emitter(proto.graph.name or "model"), opsets, control=CONTROL)
        self.reader.stated.update(_stated(proto.graph))
        self.reader.initializers(proto.graph)
        self._inputs(shapes, constants)
        self.reader.nodes(proto.graph.node)
        self.outputs = [value.name for value in proto.graph.output]
        for name in self.outputs:
            self.reader.spell_out(name)
            if name in self.reader.sequences:
                self.reader.problems.add("output", "a sequence of tensors; give its tensors as outputs", name)
        self.reader.problems.report()
        _warn_of_floats(proto.graph)

    def graph(self) -> Graph:
        for name in self.outputs:
            if name not in self.reader.values:
                raise ModelError(f"output {name!r} is written by no node")
        values = {name: single(t) for name, t in self.reader.values.items()}
        graph = finish(self.reader.emitter, values, self.outputs)
        return replace(graph, subgraphs=tuple(self.reader.subgraphs))

    def _inputs(self, shapes: Mapping[str, Sequence[int]], constants: Mapping[str, Any]) -> None:
        known = {*self.reader.values, *self.reader.lost}
        given = {value.name: value for value in self.proto.graph.input if value.name not in known}
        for name in shapes:
            if name not in given:
                raise InvalidArgumentError(f"there is no input {name!r} to give a shape; there are: {', '.join(given)}")
        for name in constants:
            if name not in given:
                raise no_input(name, given)
        opened: dict[str, Dims] = {}
        for name, value in given.items():
            try:
                if name in constants:
                    self.reader.values[name] = _fixed(value, shapes.get(name), constants[name])
                    continue
                self.reader.values[name] = self.reader.emitter.builder.input(
                    name, type_of(value), static_shape(value, shapes.get(name))
                )
            except UnsupportedOperatorError as error:
                self.reader.problems.add("input", str(error), name)
                self.reader.lost.add(name)
            except OpenShapes as error:
                opened.update(error.inputs)
        if opened:
            raise OpenShapes(opened)


def _warn_of_floats(graph: onnx.GraphProto) -> None:
    """A ModelWarning if inputs, outputs or casts have another type of floats than the float32 that they become."""
    values = [*graph.input, *graph.output]
    kinds = {value.name: value.type.tensor_type.elem_type for value in values}
    casts = {node.output[0]: a.i for node in graph.node for a in node.attribute if node.op_type == "Cast"}
    codes = {getattr(onnx.TensorProto, name): name.lower() for name in HALVES_AND_DOUBLES}
    if names := {codes[code]: None for code in (*kinds.values(), *casts.values()) if code in codes}:
        seen = [name for name, code in kinds.items() if code in codes]
        more = f"; so do inputs and outputs: {', '.join(seen[:8])}{', …' if len(seen) > 8 else ''}" if seen else ""
        what = f"{graph.name}: what is {' or '.join(names)} there becomes float32{more}"
        warnings.warn(what, ModelWarning, stacklevel=4)


def _stated(graph: onnx.GraphProto) -> Mapping[str, Tensor]:
    """By name, the values whose type and whole shape the model states."""
    stated = {}
    for value in (*graph.value_info, *graph.output):
        with suppress(InvalidArgumentError, UnsupportedOperatorError):
            stated[value.name] = Tensor(value.name, type_of(value), static_shape(value, None))
    return stated
