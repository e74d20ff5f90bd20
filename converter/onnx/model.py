"""One ONNX graph while it is read: values by name, nodes in order, and what cannot be expressed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import onnx

from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.freeze import no_input
from twinfer.converter.onnx.bodies import in_order
from twinfer.converter.onnx.control import CONTROL
from twinfer.converter.onnx.dynamic import merged
from twinfer.converter.onnx.finish import finish
from twinfer.converter.onnx.inputs import fixed_input, narrow_of, stated_shape, static_shapes, type_of
from twinfer.converter.onnx.ops.move import HALVES_AND_DOUBLES
from twinfer.converter.onnx.reader import Reader, single
from twinfer.converter.onnx.versions import KNOWN
from twinfer.runtime.errors import InvalidArgumentError, ModelError, ModelWarning, UnsupportedOperatorError
from twinfer.runtime.graph import EMPTY, Graph, Tensor


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
        self.outputs = [value.name for value in proto.graph.output]
        self.reader.nodes(merged(in_order(proto.graph.node), self.outputs))
        for name in self.outputs:
            if name in self.reader.sequences:
                self.reader.problems.add("output", "a sequence of tensors; give its tensors as outputs", name)
        self.reader.problems.report()
        _warn_of_floats(proto.graph, {name for name, t in self.reader.values.items() if t.data is None})

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
        open_ones = {name: value for name, value in given.items() if name not in constants and _is_tensor(value)}
        known_shapes = static_shapes(open_ones, {name: s for name, s in shapes.items() if name in open_ones})
        for name, value in given.items():
            try:
                if name in constants:
                    self.reader.values[name] = fixed_input(value, shapes.get(name), constants[name])
                    continue
                kind = type_of(value)
                builder, narrow = self.reader.emitter.builder, narrow_of(value)
                extra = MappingProxyType({"narrow": narrow}) if narrow else EMPTY
                self.reader.values[name] = builder.add(Tensor(name, kind, known_shapes[name], extra=extra))
                builder.inputs.append(self.reader.values[name])
            except UnsupportedOperatorError as error:
                self.reader.problems.add("input", str(error), name)
                self.reader.lost.add(name)


def _is_tensor(value: onnx.ValueInfoProto) -> bool:
    return str(value.type.WhichOneof("value")) == "tensor_type"


def _warn_of_floats(graph: onnx.GraphProto, of_run: set[str]) -> None:
    """A ModelWarning if inputs, outputs or casts have another type of floats than the float32 that they become, or if
    inputs or outputs are integers of fewer bits than the int8 that they become."""
    values = [*graph.input, *graph.output]
    kinds = {value.name: value.type.tensor_type.elem_type for value in values}
    casts = {node.output[0]: a.i for node in graph.node for a in node.attribute if node.op_type == "Cast"}
    casts = {name: code for name, code in casts.items() if name in of_run}
    if small := [f"{value.name} ({narrow_of(value)})" for value in values if narrow_of(value)]:
        warnings.warn(f"{graph.name}: inputs and outputs become int8: {', '.join(small)}", ModelWarning, stacklevel=4)
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
        shape = stated_shape(value)
        known = () if shape is None else tuple(d for d in shape if isinstance(d, int))
        with suppress(UnsupportedOperatorError):
            if shape is not None and len(known) == len(shape):
                stated[value.name] = Tensor(value.name, type_of(value), known)
    return stated
