"""A graph while it is changed. The cost of a change depends on what it touches, not on the size of the graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from twinfer.runtime.graph import Graph, Node, Tensor


class Draft:
    """The nodes of a graph in order of execution, and who makes and reads its tensors, kept up to date.

    Every node of the first graph is a place, and nodes that replace it stand there. ``undo`` takes changes back.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.producers: dict[Tensor, Node] = {}
        #: An ordered set: a node that reads a tensor twice is in it once.
        self.consumers: dict[Tensor, dict[Node, None]] = {}
        self._places: list[Sequence[Node]] = [()] * len(graph.nodes)
        self._place: dict[Node, int] = {}
        self._before: list[tuple[int, Sequence[Node]]] = []
        for i, node in enumerate(graph.nodes):
            self._put(i, (node,))

    def __contains__(self, node: Node) -> bool:
        return node in self._place

    def __iter__(self) -> Iterator[Node]:
        """The nodes in order of execution."""
        return (node for nodes in self._places for node in nodes)

    def position(self, node: Node) -> tuple[int, int]:
        """The key that nodes are sorted by."""
        place = self._place[node]
        return place, self._places[place].index(node)

    def swap(self, node: Node, instead: Iterable[Node]) -> None:
        """Puts nodes in the place of one."""
        place, i = self.position(node)
        now = self._places[place]
        self._before.append((place, now))
        self._put(place, (*now[:i], *instead, *now[i + 1 :]))

    @property
    def mark(self) -> int:
        """The state of the draft, for ``undo``."""
        return len(self._before)

    def undo(self, mark: int) -> None:
        """Takes back all swaps since the mark."""
        while len(self._before) > mark:
            self._put(*self._before.pop())

    def _put(self, place: int, nodes: Sequence[Node]) -> None:
        """Puts these nodes, and no others, at a place."""
        for node in self._places[place]:
            self.unlink(node)
        self._places[place] = nodes
        for node in nodes:
            self._place[node] = place
            self.link(node)

    def link(self, node: Node) -> None:
        """Notes what a node writes and reads."""
        self.producers.update(dict.fromkeys(node.outputs, node))
        for tensor in node.inputs:
            if tensor is not None:
                self.consumers.setdefault(tensor, {})[node] = None

    def unlink(self, node: Node) -> None:
        """Forgets what a node writes and reads."""
        del self._place[node]
        for output in node.outputs:
            if self.producers.get(output) is node:
                del self.producers[output]
        for tensor in node.inputs:
            if tensor is not None:
                self.consumers[tensor].pop(node, None)
