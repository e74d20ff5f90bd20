"""Reads the nodes of an ONNX graph in order: values by name, operators into an Emitter, and what cannot be
expressed."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import replace

import numpy as np
import onnx

from twinfer.converter.emit.emitter import Emitter, constant
from twinfer.converter.emit.finish import Problems
from twinfer.converter.onnx import sequences
from twinfer.converter.onnx.bodies import Body, body_of, in_order, inner_graphs, is_defined, outer_names
from twinfer.converter.onnx.dynamic import merged
from twinfer.converter.onnx.fold import fold
from twinfer.converter.onnx.node import OnnxNode, attributes_of, hint, importers
from twinfer.converter.onnx.versions import additions
from twinfer.runtime.errors import ModelError, TwinferError, UnsupportedOperatorError
from twinfer.runtime.graph import EMPTY, Graph, Tensor

#: Functions within functions; ONNX's own have three.
DEEPEST = 8


#: What reads an operator that runs graphs, given reader, node and inputs. None if a result is lost in these.
Control = Callable[["Reader", onnx.NodeProto, Sequence[Tensor | None]], Sequence[Tensor] | None]


class Reader:
    """Reads the nodes of one graph. A graph that a node runs, and the body of a function, have a reader of their own.

    ``values``: what nodes may read, by name. ``stated``: types and shapes of values, where the model says them.
    ``control``: what reads the operators that run graphs. ``sequences``: of tensors, by name.
    """

    def __init__(
        self,
        emitter: Emitter,
        opsets: Mapping[str, int],
        values: MutableMapping[str, Tensor] | None = None,
        outer: Reader | None = None,
        control: Mapping[str, Control] = EMPTY,
    ) -> None:
        self.emitter = emitter
        self.opsets = opsets
        self.values: MutableMapping[str, Tensor] = {} if values is None else values
        self.problems: Problems = Problems() if outer is None else outer.problems
        self.stated: dict[str, Tensor] = {}
        self.lost: set[str] = set()  # values behind nodes that cannot be expressed
        self.control: Mapping[str, Control] = control if outer is None else outer.control
        self.sequences: dict[str, tuple[Tensor, ...]] = {} if outer is None else outer.sequences
        self.subgraphs: list[Graph] = [] if outer is None else outer.subgraphs
        self.whole = onnx.GraphProto()
        self.depth: int = 0 if outer is None else outer.depth

    def initializers(self, graph: onnx.GraphProto) -> None:
        for tensor in graph.initializer:
            try:
                self.values[tensor.name] = constant(onnx.numpy_helper.to_array(tensor), tensor.name)
            except UnsupportedOperatorError as error:
                self.problems.add("initializer", str(error), tensor.name)
                self.lost.add(tensor.name)

    def nodes(self, nodes: Iterable[onnx.NodeProto]) -> None:
        for node in nodes:
            self._node(node)

    def branch(self, graph: onnx.GraphProto) -> Reader:
        """Of a graph that is read in place: it sees the values around it."""
        reader = Reader(self.emitter, self.opsets, ChainMap({}, self.values), self)
        reader.lost, reader.whole = set(self.lost), graph
        return reader

    def subgraph(self, name: str, graph: onnx.GraphProto) -> Reader:
        """Of a graph that becomes a subgraph."""
        emitter = Emitter(name)
        emitter.budget = self.emitter.budget
        reader = Reader(emitter, self.opsets, {}, self)
        reader.whole = graph
        return reader

    def results(self, given: Sequence[Tensor] = ()) -> list[Tensor] | None:
        """Reads the graph that a node runs, with these inputs; its outputs, None if one is lost."""
        graph = self.whole
        self.values.update(zip((value.name for value in graph.input), given, strict=False))
        self.initializers(graph)
        outputs = [value.name for value in graph.output]
        self.nodes(merged(in_order(graph.node), outputs))
        return self.outputs(outputs)

    def outputs(self, names: Iterable[str]) -> list[Tensor] | None:
        """Values by name; None if one is lost."""
        tensors = []
        for name in names:
            if name not in self.values and name not in self.lost:
                raise ModelError(f"output {name!r} of a graph that a node runs is written by no node")
            tensors.append(single(self.values[name]) if name in self.values else None)
        return None if self.lost.intersection(names) or None in tensors else [t for t in tensors if t is not None]

    def _node(self, proto: onnx.NodeProto) -> None:
        """Reads one node; what cannot be expressed is noted, and its outputs are lost to the nodes behind."""
        op = f"{proto.domain}:{proto.op_type}" if proto.domain else proto.op_type
        name = proto.name or next(filter(None, proto.output), "?")
        read = [*proto.input, *(name for graph in inner_graphs(proto) for name in outer_names(graph))]
        try:
            if self.lost.isdisjoint(read):
                self._store(proto, self._results(op, proto))
            elif op in importers() or op in self.control or is_defined(proto, self.opsets.get(proto.domain, 1)):
                self.lost.update(proto.output)
            else:
                raise UnsupportedOperatorError(hint(proto))
        except UnsupportedOperatorError as error:
            self.problems.add(op, str(error), name)
            self._lose(proto)
        except ModelError:
            if not self.problems.by_reason:
                raise
            self._lose(proto)  # what was put in for lost values may be wrong

    def _results(self, op: str, proto: onnx.NodeProto) -> Sequence[Tensor | None] | None:
        """What a node gives: computed here if all that it reads is constant, else by its importer, else by the
        operators that ONNX defines it with. None if a result is lost in a graph that it runs."""
        if sequences.is_of(proto, self.sequences):
            return self._read_sequence(proto)
        inputs = tuple(self._value(proto, name) for name in proto.input)
        folded = fold(proto, inputs, self.opsets, self.emitter.budget)
        if folded is not None:
            return folded
        inputs = tuple(t and single(t) for t in inputs)
        if op in self.control:
            return self.control[op](self, proto, inputs)
        opset = self.opsets.get(proto.domain, 1)
        refusal = UnsupportedOperatorError(additions(proto, opset) or hint(proto))
        imported = op in importers()
        if imported and not additions(proto, opset):
            try:
                return self._run(OnnxNode(op, proto.name, opset, inputs, tuple(proto.output), attributes_of(proto)))
            except UnsupportedOperatorError as error:
                refusal = error
        body = body_of(proto, inputs, opset) if self.depth < DEEPEST else None
        if body is None:
            raise refusal
        try:
            return self._expanded(body, proto, inputs)
        except UnsupportedOperatorError as error:
            raise refusal if imported else error from None
        except ModelError as error:
            raise ModelError(f"{op} {proto.name or list(proto.output)}: {error}") from None

    def _read_sequence(self, proto: onnx.NodeProto) -> Sequence[Tensor]:
        inputs = tuple(None if name in self.sequences else self._value(proto, name) for name in proto.input)
        node = OnnxNode(
            proto.op_type, proto.name, self.opsets.get("", 1), inputs, tuple(proto.output), attributes_of(proto)
        )
        self.emitter.place = proto.output[0]
        return sequences.read(self.emitter, self.sequences, proto, node)

    def _expanded(self, body: Body, proto: onnx.NodeProto, inputs: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        given = {name: t for name, t in zip(body.inputs, inputs, strict=False) if t is not None}
        reader = Reader(self.emitter, body.opsets, given, self)
        reader.problems, reader.depth = Problems(), self.depth + 1
        reader.nodes(body.nodes)
        asked = {inner: outer for inner, outer in zip(body.outputs, proto.output, strict=False) if outer}
        results = reader.outputs(asked)
        for (op, reason), _ in reader.problems.by_reason.items():
            raise UnsupportedOperatorError(f"ONNX defines it by operators, of which {op}: {reason}")
        named = dict(zip(asked.values(), results or (), strict=False))
        return [named.get(name) for name in proto.output]

    def _store(self, proto: onnx.NodeProto, results: Sequence[Tensor | None] | None) -> None:
        if results is None:
            self.lost.update(proto.output)
            return
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
        tensor = self.stated.get(name)
        if tensor is None:
            self.lost.add(name)
        else:
            self.values[name] = self.emitter.builder.add(tensor)


def single(tensor: Tensor) -> Tensor:
    """A constant in FLOAT32 if it is of halves or doubles; finite numbers stay finite."""
    if tensor.data is None or tensor.type not in ("FLOAT16", "FLOAT64"):
        return tensor
    most, data = np.finfo(np.float32).max, np.asarray(tensor.data)
    data = np.where(np.isfinite(data), np.clip(data, -most, most), data).astype(np.float32)
    return replace(tensor, type="FLOAT32", data=data)
