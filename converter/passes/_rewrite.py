"""Passes apply a rule, which looks at one node, until it finds nothing more to change. The cost of a change depends on
what it touches, not on the size of the graph."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.build import TYPES
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import DTYPES, Graph, Node, Quant, Tensor
from twinfer.runtime.metadata import without_plan
from twinfer.runtime.read import schema
from twinfer.runtime.registry import keeps_state
from twinfer.runtime.shapes import infer_node


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
        return len(self._before)

    def undo(self, mark: int) -> None:
        while len(self._before) > mark:
            self._put(*self._before.pop())

    def _put(self, place: int, nodes: Sequence[Node]) -> None:
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


#: A pass.
Pass = Callable[[Graph], Graph]

#: Types whose tensors stand for resources outside of the graph.
HANDLES = frozenset({"RESOURCE", "VARIANT"})


@dataclass(frozen=True)
class Change:
    """What a rule wants.

    ``remove``: nodes to leave out. ``add``: nodes to put in the place of the last of these (``first``: of the first).
    ``replaced``: each of these tensors, written or read, becomes the one that it maps to.
    """

    remove: tuple[Node, ...] = ()
    add: tuple[Node, ...] = ()
    replaced: Mapping[Tensor, Tensor] = field(default_factory=lambda: MappingProxyType({}))
    first: bool = False


class View(Draft):
    """A graph with the writers and readers of its tensors, and those that the outside knows; ``apply`` changes it."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        #: Tensors that the outside knows. None of them may vanish.
        self.public = frozenset(_public(graph))

    def producer(self, tensor: Tensor | None, *ops: str) -> Node | None:
        """The node that writes the tensor if it is one of ``ops`` (none given: any)."""
        node = None if tensor is None else self.producers.get(tensor)
        return node if node is not None and (not ops or node.op in ops) else None

    def feeds(self, tensor: Tensor | None, *ops: str) -> Node | None:
        """The node that writes ``tensor`` if it is one of ``ops``, may run later, and nothing else needs the tensor."""
        node = self.producer(tensor, *ops)
        if tensor is None or node is None or tensor in self.public or touches_state(node):
            return None
        return node if len(self.consumers.get(tensor, ())) == 1 and len(node.outputs) == 1 else None

    def only_here(self, tensor: Tensor) -> bool:
        """Whether one node alone reads a constant, so that a changed copy costs no memory."""
        return tensor.data is not None and tensor not in self.public and len(self.consumers.get(tensor, ())) == 1

    def apply(self, change: Change) -> list[Node]:
        """Makes a change and leaves out what nobody reads any more. Returns the nodes that the change touches."""
        renames = {n: (with_tensors(n, change.replaced),) for t in change.replaced for n in self._touching(t)}
        swaps = {**renames, **dict.fromkeys(change.remove, ())}
        place = (min if change.first else max)(change.remove, key=self.position)
        swaps[place] = change.add
        return self.swap_all(swaps)

    def swap_all(self, swaps: Mapping[Node, Sequence[Node]]) -> list[Node]:
        """Replaces nodes and leaves out what nobody reads any more. Returns the nodes that this touches."""
        for node, instead in swaps.items():
            self.swap(node, instead)
        read = [t for node in swaps for t in node.inputs if t is not None]
        self._bury(read)
        new = [n for instead in swaps.values() for n in instead if n in self]
        return [*new, *(near for t in read for near in self._touching(t, 1)), *self.around(new)]

    def _touching(self, tensor: Tensor, most: int | None = None) -> list[Node]:
        """The writer of a tensor, and its readers if they are no more than ``most``."""
        maker, readers = self.producers.get(tensor), self.consumers.get(tensor, {})
        return [*([maker] if maker else []), *(readers if most is None or len(readers) <= most else ())]

    def around(self, nodes: Iterable[Node]) -> list[Node]:
        """The neighbours of nodes: what feeds them, and what is up to two operators further, as far as rules look."""
        nodes = list(nodes)
        readers = [n for node in nodes for t in node.outputs for n in self.consumers.get(t, ())]
        further = [n for node in readers for t in node.outputs for n in self.consumers.get(t, ())]
        return [*(n for node in nodes for t in node.inputs if t for n in self._touching(t, 1)), *readers, *further]

    def _bury(self, tensors: Iterable[Tensor]) -> None:
        """Leaves out the writers of tensors that nobody needs, then the writers of what these read."""
        ahead = list(tensors)
        while ahead:
            node = self.producers.get(ahead.pop())
            if node is not None and not has_effects(node) and not any(self._wanted(t) for t in node.outputs):
                self.swap(node, ())
                ahead += [t for t in node.inputs if t is not None]

    def _wanted(self, tensor: Tensor) -> bool:
        return tensor in self.public or bool(self.consumers.get(tensor))

    def result(self) -> Graph:
        return rebuild(self.graph, needed_nodes(self.graph, list(self)))


Rule = Callable[[View, Node], Change | None]


def rewrite(graph: Graph, rule: Rule) -> Graph:
    """The graph after ``rule`` was applied wherever it applies, again and again.

    A rule gets every node in order of execution and returns what to change, or None. It must make progress: a rule that
    undoes itself runs for ever. Nodes that a change leaves without a reader go.
    """
    while apply_near(view := View(graph), rule, view):
        graph = view.result()
    return graph


def apply_near(view: View, rule: Rule, nodes: Iterable[Node]) -> bool:
    """Applies the rule to nodes, then to the neighbours of every change. Returns whether anything was changed."""
    mark, ahead = view.mark, dict.fromkeys(nodes)
    queue = deque(ahead)
    while queue:
        node = queue.popleft()
        ahead.pop(node, None)
        change = rule(view, node) if node in view else None
        if change is not None:
            again = sorted({n for n in view.apply(change) if n not in ahead}, key=view.position)
            ahead.update(dict.fromkeys(again))
            queue.extendleft(reversed(again))
    return view.mark > mark


def touches_state(node: Node) -> bool:
    """Whether the node reads or writes a state. If so, neither its place nor its number of runs may change."""
    tensors = [t for t in (*node.inputs, *node.outputs) if t is not None]
    return keeps_state(node) or any(t.variable or t.type in HANDLES for t in tensors)


def needed_nodes(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """The nodes on which an output, a signature or a state depends; custom and control-flow operators always stay."""
    wanted, kept = set(_public(graph)), []
    for node in reversed(nodes):
        if has_effects(node) or any(t in wanted for t in node.outputs):
            wanted.update(t for t in node.inputs if t is not None)
            kept.append(node)
    return kept[::-1]


def has_effects(node: Node) -> bool:
    """Whether the node must run even if nobody reads its results; the subgraphs that it runs may have effects."""
    calls = any("subgraph" in key for key in node.options)
    return calls or touches_state(node) or not node.outputs or node.op.startswith("CUSTOM:")


def _public(graph: Graph) -> list[Tensor]:
    named = [t for s in graph.signatures if s.subgraph == 0 for t in (*s.inputs.values(), *s.outputs.values())]
    return [*graph.inputs, *graph.outputs, *named, *(t for t in graph.tensors if t.variable)]


def rebuild(graph: Graph, nodes: Iterable[Node]) -> Graph:
    """The graph over these nodes. Unused tensors go; the old ones keep their order."""
    numbered = tuple(node if node.index == i else replace(node, index=i) for i, node in enumerate(nodes))
    lists = ((*node.inputs, *node.outputs, *node.extra.get("intermediates", ())) for node in numbered)
    new = dict.fromkeys(t for tensors in lists for t in tensors if t is not None)
    new.update(dict.fromkeys(_public(graph)))
    used = set(new)
    for _, details in (tensor.extra["details"] for tensor in new if "details" in tensor.extra):
        used.update(value for value in details.values() if isinstance(value, Tensor))  # scales of single blocks
    old = dict.fromkeys(t for t in graph.tensors if t in used)
    return replace(without_plan(graph), nodes=numbered, tensors=tuple({**old, **new}))


def with_tensors(node: Node, replaced: Mapping[Tensor, Tensor]) -> Node:
    """The node with other tensors in the place of those that ``replaced`` maps."""
    if not any(t in replaced for t in (*node.inputs, *node.outputs)):
        return node
    inputs = tuple(None if t is None else replaced.get(t, t) for t in node.inputs)
    return replace(node, inputs=inputs, outputs=tuple(replaced.get(t, t) for t in node.outputs))


def swap_tensors(graph: Graph, replaced: Mapping[Tensor, Tensor]) -> Graph:
    """The graph with other tensors in the place of those that ``replaced`` maps."""

    def of(tensor: Tensor) -> Tensor:
        return replaced.get(tensor, tensor)

    return replace(
        graph,
        tensors=tuple(map(of, graph.tensors)),
        nodes=tuple(with_tensors(node, replaced) for node in graph.nodes),
        inputs=tuple(map(of, graph.inputs)),
        outputs=tuple(map(of, graph.outputs)),
        signatures=tuple(signature.over(of) for signature in graph.signatures),
    )


# -- what rules write -------------------------------------------------------------------------------------------------
def constant(data: NDArray[Any], name: str, quant: Quant | None = None) -> Tensor:
    stored = np.array(data, order="C")
    stored.flags.writeable = False
    return Tensor(name, TYPES[stored.dtype.newbyteorder("<")], stored.shape, quant, stored)


def new_node(op: str, inputs: Sequence[Tensor | None], output: Tensor, **options: Any) -> Node:
    """A node with one output and the format's defaults for what ``options`` does not say."""
    return Node(op, tuple(inputs), (output,), MappingProxyType({**schema.default_options(op), **options}))


def with_options(node: Node, **options: Any) -> Node:
    return replace(node, options=MappingProxyType({**node.options, **options}))


def works(node: Node) -> bool:
    """Whether twinfer has the operator and it gives the outputs that the node says."""
    try:
        return infer_node(node) == [t.shape for t in node.outputs]
    except TwinferError:
        return False


def bypass(view: View, node: Node, source: Tensor, target: Tensor) -> Change | None:
    """Takes out a node that passes ``source`` on as ``target``; None where both must stay.

    A target that the outside knows is written by the source's producer instead.
    """
    if touches_state(node) or (source.data is not None and target in view.public):
        return None
    if target not in view.public:
        return Change((node,), (), {target: source})
    producer = view.producer(source)
    if producer is None or source in view.public:
        return None
    return Change((node,), (), {source: target})


def scalar(tensor: Tensor | None) -> float | None:
    """The number that all elements of a constant hold, as stored; None if they differ or it is no constant."""
    if tensor is None or tensor.data is None or tensor.type not in DTYPES or not tensor.size:
        return None
    first = tensor.data.reshape(-1)[0]
    return float(first) if bool((tensor.data == first).all()) else None
