"""A run of TFLM by a memory plan, for who lies on whose bytes: it knows no lives, and nothing of the planner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twinfer.converter.facts import Moves
from twinfer.converter.table import row_of
from twinfer.runtime.control import callees
from twinfer.runtime.graph import Graph, Node, Tensor, walk


class Clobbered(Exception):
    """A value was read that another one lies on."""


class Replay:
    """Runs a model as TFLM does, with nothing but the name of the tensor that wrote each byte."""

    def __init__(self, graph: Graph, places: Mapping[Tensor, int]) -> None:
        self.graphs, self.places, self.bytes = list(walk(graph)), places, dict[int, Tensor]()
        self.write(graph.inputs)
        self.run(graph)
        self.read(graph.outputs)

    def span(self, tensor: Tensor) -> range:
        at = self.places.get(tensor)
        return range(0) if at is None else range(at, at + tensor.nbytes)

    def write(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            self.bytes.update((byte, tensor) for byte in self.span(tensor))

    def read(self, tensors: Iterable[Tensor | None]) -> None:
        for tensor in tensors:
            if tensor is not None and any(self.bytes.get(byte) is not tensor for byte in self.span(tensor)):
                raise Clobbered(tensor.name)

    def copy(self, sources: Iterable[Tensor | None], targets: Iterable[Tensor]) -> None:
        for source, target in zip(sources, targets, strict=True):
            self.read([source])
            self.write([target])

    def run(self, graph: Graph) -> None:
        for node in graph.nodes:
            _RULES.get(node.op, Replay.kernel)(self, node)

    def kernel(self, node: Node) -> None:
        self.read(node.inputs)
        moves = row_of(node).moves is not Moves.RESHAPES
        read = {byte for t in node.inputs if t is not None for byte in self.span(t)}
        for out in node.outputs:
            same = not moves and self.places.get(node.input(0)) == self.places.get(out)
            if read.intersection(self.span(out)) and not same:
                raise Clobbered(out.name)
        self.write(node.outputs)

    def called(self, node: Node, inputs: Iterable[Tensor | None]) -> None:
        given = list(inputs)
        for index in callees(node):
            self.copy(given, self.graphs[index].inputs)
            self.run(self.graphs[index])
            self.copy(self.graphs[index].outputs, node.outputs)

    def branch(self, node: Node) -> None:
        self.called(node, node.inputs[1:])

    def once(self, node: Node) -> None:
        self.called(node, [])

    def composite(self, node: Node) -> None:
        self.called(node, node.inputs)

    def loop(self, node: Node) -> None:
        test, body = (self.graphs[index] for index in callees(node))
        self.copy(node.inputs, test.inputs)
        self.copy(node.inputs, node.outputs)
        for _ in range(2):
            self.run(test)
            self.read(test.outputs)
            self.copy(node.outputs, body.inputs)
            self.run(body)
            self.copy(body.outputs, node.outputs)
            self.copy(node.outputs, test.inputs)
        self.run(test)


_RULES = {"IF": Replay.branch, "CALL_ONCE": Replay.once, "STABLEHLO_COMPOSITE": Replay.composite, "WHILE": Replay.loop}
