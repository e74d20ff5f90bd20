"""One ONNX graph while it is read: values by name, nodes in order, and what cannot be expressed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import onnx

from twinfer.converter.emit.emitter import SMALL, Emitter, constant
from twinfer.converter.emit.finish import Problems, change_tensors, renamer, sign, with_outputs
from twinfer.converter.freeze import fixed, no_input
from twinfer.converter.onnx.fold import fold
from twinfer.converter.onnx.gelu import Term, term_of
from twinfer.converter.onnx.integer import integer
from twinfer.converter.onnx.node import HINTS, NO_IMPORTER, OnnxNode, Shape, attributes_of, importers
from twinfer.converter.onnx.ops.move import tensor_type
from twinfer.converter.table import row_of
from twinfer.runtime.errors import InvalidArgumentError, ModelError, TwinferError, UnsupportedOperatorError
from twinfer.runtime.graph import EMPTY, Graph, Quant, Tensor
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
            raise InvalidArgumentError(_open(value.name, dims))
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


def _open(name: str, dims: Sequence[onnx.TensorShapeProto.Dimension] | None) -> str:
    if dims is None:
        return f"input {name!r} has no shape in the model; say it: --shape {name}=1,3,32,32"
    shown = [d.dim_value if _is_known(d) else d.dim_param or "?" for d in dims]
    example = ",".join(str(d) if isinstance(d, int) else "1" for d in shown)
    return f"input {name!r} {shown} has open dimensions; say them: --shape {name}={example}"


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
    """Reads the nodes in order; ``graph`` finishes. Raises as ``read_onnx``."""

    def __init__(
        self, proto: onnx.ModelProto, shapes: Mapping[str, Sequence[int]], constants: Mapping[str, Any]
    ) -> None:
        self.proto = proto
        self.opsets = {o.domain: o.version for o in proto.opset_import}
        self.emitter = Emitter(proto.graph.name or "model")
        self.problems = Problems()
        self.values: dict[str, Tensor] = {}
        self.lost: set[str] = set()  # values behind nodes that cannot be expressed
        self.terms: dict[str, Term] = {}  # what may be a part of GELU; with Erf in it, it is in no value yet
        self._initializers(proto.graph)
        self._inputs(shapes, constants)
        self._nodes(proto.graph)
        for value in proto.graph.output:
            self._spell_out(value.name)
        self.problems.report()

    def graph(self) -> Graph:
        outputs = [value.name for value in self.proto.graph.output]
        for name in outputs:
            if name not in self.values:
                raise ModelError(f"output {name!r} is written by no node")
        return finish(self.emitter, self.values, outputs)

    def _initializers(self, graph: onnx.GraphProto) -> None:
        for tensor in graph.initializer:
            try:
                self.values[tensor.name] = constant(onnx.numpy_helper.to_array(tensor), tensor.name)
            except UnsupportedOperatorError as error:
                self.problems.add("initializer", str(error), tensor.name)
                self.lost.add(tensor.name)

    def _inputs(self, shapes: Mapping[str, Sequence[int]], constants: Mapping[str, Any]) -> None:
        known = {*self.values, *self.lost}
        given = {value.name: value for value in self.proto.graph.input if value.name not in known}
        for name in shapes:
            if name not in given:
                raise InvalidArgumentError(f"there is no input {name!r} to give a shape; there are: {', '.join(given)}")
        for name in constants:
            if name not in given:
                raise no_input(name, given)
        for name, value in given.items():
            try:
                if name in constants:
                    self.values[name] = _fixed(value, shapes.get(name), constants[name])
                    continue
                self.values[name] = self.emitter.builder.input(
                    name, type_of(value), static_shape(value, shapes.get(name))
                )
            except UnsupportedOperatorError as error:
                self.problems.add("input", str(error), name)
                self.lost.add(name)

    def _nodes(self, graph: onnx.GraphProto) -> None:
        for node in graph.node:
            branch = self._branch(node)
            if branch is None:
                self._node(node)
            else:
                self._inline(branch, node)

    def _branch(self, proto: onnx.NodeProto) -> onnx.GraphProto | None:
        """The branch that an If with a constant condition runs; None for other nodes."""
        own = proto.op_type == "If" and not proto.domain
        condition = self.values.get(proto.input[0]) if own else None
        if condition is None or condition.data is None or condition.size != 1:
            return None
        taken = "then_branch" if condition.data.item() else "else_branch"
        branches: list[onnx.GraphProto] = [a.g for a in proto.attribute if a.name == taken]
        return branches[0]

    def _inline(self, branch: onnx.GraphProto, proto: onnx.NodeProto) -> None:
        """Reads a branch in place of the If. It sees the values around it, and its outputs are the If's."""
        self._initializers(branch)
        self._nodes(branch)
        names = [value.name for value in branch.output]
        if self.lost.isdisjoint(names):
            self._store(proto, [self._value(proto, name) for name in names])
        else:
            self.lost.update(proto.output)

    def _node(self, proto: onnx.NodeProto) -> None:
        """Reads one node; what cannot be expressed is noted, and its outputs are lost to the nodes behind."""
        op = f"{proto.domain}:{proto.op_type}" if proto.domain else proto.op_type
        name = proto.name or next(filter(None, proto.output), "?")
        if self._is_term(op, name, proto):
            return
        for read in proto.input:
            self._spell_out(read)
        try:
            if op not in importers():
                self._unknown(op, proto)
            elif not self.lost.isdisjoint(proto.input):
                self.lost.update(proto.output)
            else:
                self._import(op, proto)
        except UnsupportedOperatorError as error:
            self.problems.add(op, str(error), name)
            self._lose(proto)
        except ModelError:
            if not self.problems.by_reason:
                raise
            self._lose(proto)  # what was put in for lost values may be wrong

    def _is_term(self, op: str, name: str, proto: onnx.NodeProto) -> bool:
        """Notes the result if it is a part of GELU. Returns whether Erf is in it, so that its own value waits."""
        if op not in ("Add", "Div", "Erf", "Mul") or not self.lost.isdisjoint(proto.input):
            return False
        operands = [self._operand(read) for read in proto.input]
        term = None if None in operands else term_of(op, name, *(each for each in operands if each is not None))
        if term is not None:
            self.terms[proto.output[0]] = term
        return term is not None and bool(term.share)

    def _operand(self, name: str) -> Term | float | None:
        """A float value as a term, or as a number if it is a constant of one element; None for others."""
        value = self.values.get(name)
        if value is None or name in self.terms:
            return self.terms.get(name)
        if value.type != "FLOAT32" or value.quant is not None:
            return None
        if value.data is None:
            return Term(value)
        return float(value.data.reshape(-1)[0]) if value.shape in ((), (1,)) else None

    def _spell_out(self, name: str) -> None:
        """Emits a term with Erf in it, because another operator reads it, if it is GELU."""
        term = self.terms.get(name)
        if term is None or name in self.values or name in self.lost:
            return
        if term.is_gelu:
            self.emitter.place = name
            self.values[name] = term.emit(self.emitter)
        else:
            if term.erf not in self.problems.by_reason.get(("Erf", HINTS["Erf"]), ()):
                self.problems.add("Erf", HINTS["Erf"], term.erf)
            self._lose_value(name)

    def _unknown(self, op: str, proto: onnx.NodeProto) -> None:
        """Folds an operator without importer if its inputs are constants."""
        inputs = [self.values.get(name) for name in proto.input]
        results = None if self.lost.intersection(proto.input) else self._folded(proto, inputs)
        if results is None:
            raise UnsupportedOperatorError(HINTS.get(proto.op_type, NO_IMPORTER))
        self._store(proto, results)

    def _import(self, op: str, proto: onnx.NodeProto) -> None:
        inputs = tuple(self._value(proto, name) for name in proto.input)
        opset = self.opsets.get(proto.domain, 1)
        node = OnnxNode(op, proto.name, opset, inputs, tuple(proto.output), attributes_of(proto))
        results = self._folded(proto, inputs)
        self._store(proto, self._run(node) if results is None else results)

    def _folded(self, proto: onnx.NodeProto, inputs: Sequence[Tensor | None]) -> list[Tensor | None] | None:
        return fold(proto, inputs, self.opsets, self.emitter.budget)

    def _store(self, proto: onnx.NodeProto, results: Sequence[Tensor | None]) -> None:
        self.values.update((name, t) for name, t in zip(proto.output, results, strict=False) if name and t is not None)

    def _value(self, proto: onnx.NodeProto, name: str) -> Tensor | None:
        if name and name not in self.values:
            raise ModelError(f"{proto.op_type} {proto.name or list(proto.output)} reads {name!r}, which nothing writes")
        return self.values[name] if name else None

    def _run(self, node: OnnxNode) -> Sequence[Tensor | None]:
        self.emitter.place = next(filter(None, node.outputs), node.op)
        try:
            results = importers()[node.op](self.emitter, node)
        except TwinferError as error:
            if isinstance(error, UnsupportedOperatorError) or str(error).startswith(str(node)):
                raise
            raise ModelError(f"{node}: {error}") from None
        except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
            given = ", ".join("none" if t is None else f"{t.type}{list(t.shape)}" for t in node.inputs)
            attributes = ", ".join(f"{key}={str(value)[:60]}" for key, value in node.attributes.items()) or "none"
            raise ModelError(f"{node}: inputs {given} and attributes {attributes} do not fit together") from error
        return [results] if isinstance(results, Tensor) else results

    def _lose(self, proto: onnx.NodeProto) -> None:
        """Puts stand-ins of the right type and shape in place of the node's outputs, to check the nodes behind."""
        for name in filter(None, proto.output):
            self._lose_value(name)

    def _lose_value(self, name: str) -> None:
        tensor = self._stated.get(name)
        if tensor is None:
            self.lost.add(name)
        else:
            self.values[name] = self.emitter.builder.add(tensor)

    @cached_property
    def _stated(self) -> Mapping[str, Tensor]:
        """By name, the values whose type and whole shape the model states."""
        stated = {}
        for value in (*self.proto.graph.value_info, *self.proto.graph.output):
            with suppress(InvalidArgumentError, UnsupportedOperatorError):
                stated[value.name] = Tensor(value.name, type_of(value), static_shape(value, None))
        return stated


def finish(g: Emitter, values: Mapping[str, Tensor], outputs: Sequence[str]) -> Graph:
    """The graph of what was emitted. An output that is an input, a constant or another output gets a copy."""
    graph, taken = with_outputs(g, [(name, values[name]) for name in outputs])
    name = renamer(graph, {**{t: name for name, t in reversed(list(values.items()))}, **taken})
    quants = _spread(graph, g.quants)
    graph = change_tensors(graph, lambda t: replace(t, name=name(t), quant=quants.get(t)))
    return sign(change_tensors(integer(graph), _plain))


def _spread(graph: Graph, quants: Mapping[Tensor, Quant]) -> dict[Tensor, Quant]:
    """Quantisations of integer tensors, passed on through the operators that only move their elements."""
    known = {**{t: t.quant for t in graph.tensors if t.quant is not None}, **quants}
    for nodes in (graph.nodes, graph.nodes[::-1]):
        for node in nodes:
            if row_of(node).moves is not None:
                ends = [t for t in (*node.inputs, *node.outputs) if t is not None and t.type in SMALL]
                quant = next((known[t] for t in ends if t in known), None)
                known.update({t: quant for t in ends if quant is not None and t not in known})
    return known


def _plain(tensor: Tensor) -> Tensor:
    """Constants without the integers that they were dequantised from, and without the type that they had in ONNX."""
    if tensor.type == "FLOAT32" and tensor.quant is not None:
        return replace(tensor, quant=None, extra=EMPTY)
    return replace(tensor, extra=EMPTY) if "narrow" in tensor.extra else tensor
