"""Runs a graph node by node, every node over all samples before the next one: so a node can still change when all that
is before it has run, and only values that are still to be read are held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from twinfer.converter.quantize.affine import to_stored
from twinfer.converter.quantize.calibrate import streams
from twinfer.converter.quantize.samples import Sample
from twinfer.runtime.graph import Array, Graph, Node, Tensor
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session


class Walk:
    """``samples`` are values for the inputs of a graph, floats where the graph's own may be integers."""

    def __init__(self, graph: Graph, samples: Sequence[Sample]) -> None:
        self._stream = streams(graph)
        self._left = Counter(t for node in graph.nodes for t in node.inputs if t is not None)
        self._left.update(graph.outputs)  # held to the end
        columns = zip(*(sample.values() for sample in samples), strict=True)
        self.values: dict[Tensor, list[Array]] = {
            t: [to_stored(value, t) for value in column] for t, column in zip(graph.inputs, columns, strict=True)
        }
        self._count = len(samples)

    def run(self, node: Node) -> None:
        """Computes the node's outputs for all samples, and drops inputs that nobody else reads."""
        session = Session(make_plan(graph_of(node)))
        inputs = session.plan.graph.inputs
        results: list[list[Array]] = [[] for _ in node.outputs]
        for i in range(self._count):
            if not self._stream:
                session.reset_variables()
            for tensor in inputs:
                session.view(tensor)[...] = self.values[tensor][i]
            session.run()
            for result, tensor in zip(results, node.outputs, strict=True):
                result.append(session.view(tensor).copy())
        self.values.update(zip(node.outputs, results, strict=True))
        for tensor in filter(None, node.inputs):
            self._left[tensor] -= 1
        for tensor in (*filter(None, node.inputs), *node.outputs):
            if not self._left[tensor]:
                self.values.pop(tensor, None)


def graph_of(node: Node) -> Graph:
    """A graph of this node."""
    tensors = [t for t in (*node.inputs, *node.outputs) if t is not None]
    kept = (*dict.fromkeys([*tensors, *node.extra.get("intermediates", ())]),)
    inputs: Iterable[Tensor] = (t for t in node.inputs if t is not None and t.data is None and not t.variable)
    return Graph("one node", kept, (node,), tuple(dict.fromkeys(inputs)), node.outputs)
