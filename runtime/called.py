"""Shapes through calls: a subgraph that gets other shapes than its own is inferred anew, as a copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from twinfer.runtime.control import CALLEES, MOST_CALLS, callees
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.op import Shape

#: How many copies there may be. Planning refuses the calls that are not followed: too many, or nested too deep.
MOST_COPIES = 1 << 8


class Calls:
    """The subgraphs of a model, the main one first, and behind them the copies for calls with other shapes.

    ``infer`` gives a subgraph whose inputs have other shapes. Calls that do not fit their subgraphs are left as they
    are: planning says what is wrong there.
    """

    def __init__(self, graphs: Sequence[Graph], infer: Callable[[Graph, Mapping[Tensor, Shape], Calls], Graph]) -> None:
        self.graphs = list(graphs)
        self._infer = infer
        self._copies: dict[tuple[int, tuple[Shape, ...]], int] = {}
        self._depth = 0
        self._most = len(self.graphs) + MOST_COPIES

    def inputs(self, node: Node) -> list[Tensor]:
        """The inputs of all subgraphs that a node calls."""
        return [
            tensor for index in callees(node) if 0 < index < len(self.graphs) for tensor in self.graphs[index].inputs
        ]

    def node(self, node: Node) -> tuple[Mapping[str, int], list[Shape]] | None:
        """Options that name the subgraphs for the shapes of a node's inputs, and the shapes that its outputs get."""
        arguments = tuple(t.shape for t in node.inputs if t is not None)[node.op == "IF" :]
        options = dict(zip(CALLEES[node.op], callees(node), strict=False))
        fits = [0 < i < len(self.graphs) and len(self.graphs[i].inputs) == len(arguments) for i in options.values()]
        if len(options) < len(CALLEES[node.op]) or not all(fits):
            return None
        options = {key: self._with_shapes(index, arguments) for key, index in options.items()}
        results = self.graphs[next(iter(options.values()))].outputs
        shapes = [*arguments] if node.op == "WHILE" else [tensor.shape for tensor in results]
        return (options, shapes) if len(shapes) == len(node.outputs) else None

    def _with_shapes(self, index: int, shapes: tuple[Shape, ...]) -> int:
        """The number of the subgraph whose inputs have these shapes: ``index``, or that of a copy."""
        followed = self._depth < MOST_CALLS and len(self.graphs) < self._most
        if followed and (index, shapes) not in self._copies:
            self._copies[index, shapes] = index  # of a call to itself, too
            graph = self.graphs[index]
            self._depth += 1
            copy = self._infer(graph, dict(zip(graph.inputs, shapes, strict=True)), self)
            self._depth -= 1
            if copy is not graph:
                self._copies[index, shapes] = len(self.graphs)
                self.graphs.append(copy)
        return self._copies.get((index, shapes), index)
