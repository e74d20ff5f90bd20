"""What passes are made of: a rule that looks at one node, applied until it finds nothing more to change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from twinfer.runtime.graph import Graph, Node, Signature, Tensor, consumers

#: A pass.
Pass = Callable[[Graph], Graph]


@dataclass(frozen=True)
class Change:
    """What a rule wants: nodes to leave out, nodes to put in the place of the last of these, and tensors that others
    take over from (written or read, each ``replaced`` tensor becomes the one it maps to)."""

    remove: tuple[Node, ...] = ()
    add: tuple[Node, ...] = ()
    replaced: Mapping[Tensor, Tensor] = field(default_factory=lambda: MappingProxyType({}))


class View:
    """A graph and who makes and reads its tensors."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.consumers = consumers(graph)
        self.producers = {tensor: node for node in graph.nodes for tensor in node.outputs}
        named = (t for s in graph.signatures if s.subgraph == 0 for t in (*s.inputs.values(), *s.outputs.values()))
        #: Tensors that the outside knows: none of them may vanish.
        self.public = {*graph.inputs, *graph.outputs, *named, *(t for t in graph.tensors if t.variable)}

    def producer(self, tensor: Tensor | None) -> Node | None:
        """The node that makes the tensor."""
        return None if tensor is None else self.producers.get(tensor)

    def feeds(self, tensor: Tensor | None, *ops: str) -> Node | None:
        """The node that makes ``tensor`` if it is one of ``ops`` and nothing else needs the tensor."""
        node = self.producer(tensor)
        if tensor is None or node is None or node.op not in ops or tensor in self.public:
            return None
        return node if len(self.consumers.get(tensor, ())) == 1 else None


Rule = Callable[[View, Node], Change | None]


def rewrite(graph: Graph, rule: Rule) -> Graph:
    """The graph after ``rule`` was applied wherever it applies, again and again.

    A rule gets every node in order of execution and returns what to change, or None. It must make progress: nothing
    stops one that undoes itself.
    """
    while (change := _first(graph, rule)) is not None:
        graph = _changed(graph, change)
    return graph


def _first(graph: Graph, rule: Rule) -> Change | None:
    view = View(graph)
    return next((change for node in graph.nodes if (change := rule(view, node)) is not None), None)


def _changed(graph: Graph, change: Change) -> Graph:
    gone = set(change.remove)
    last = max((i for i, node in enumerate(graph.nodes) if node in gone), default=len(graph.nodes) - 1)
    nodes = [n for n in graph.nodes[: last + 1] if n not in gone]
    nodes += [*change.add, *(n for n in graph.nodes[last + 1 :] if n not in gone)]
    return rebuilt(graph, nodes, change.replaced)


def rebuilt(graph: Graph, nodes: Iterable[Node], replaced: Mapping[Tensor, Tensor] | None = None) -> Graph:
    """The graph over these nodes; the tensors are those that are used, those that were there in their order."""
    replaced = replaced or {}
    made = tuple(_renumbered(node, i, replaced) for i, node in enumerate(nodes))
    outputs = tuple(replaced.get(t, t) for t in graph.outputs)
    signatures = tuple(_signature(s, replaced) if s.subgraph == 0 else s for s in graph.signatures)
    used: dict[Tensor, None] = dict.fromkeys(graph.inputs)
    for node in made:
        used.update(dict.fromkeys(t for t in (*node.inputs, *node.outputs) if t is not None))
    used.update(dict.fromkeys(outputs))
    named = [t for s in signatures if s.subgraph == 0 for t in (*s.inputs.values(), *s.outputs.values())]
    used.update(dict.fromkeys([*named, *(t for t in graph.tensors if t.variable)]))
    old = dict.fromkeys(t for t in graph.tensors if t in used)
    return replace(graph, nodes=made, outputs=outputs, signatures=signatures, tensors=tuple({**old, **used}))


def _renumbered(node: Node, index: int, replaced: Mapping[Tensor, Tensor]) -> Node:
    inputs = tuple(None if t is None else replaced.get(t, t) for t in node.inputs)
    outputs = tuple(replaced.get(t, t) for t in node.outputs)
    if index == node.index and inputs == node.inputs and outputs == node.outputs:
        return node
    return replace(node, inputs=inputs, outputs=outputs, index=index)


def _signature(signature: Signature, replaced: Mapping[Tensor, Tensor]) -> Signature:
    outputs = {name: replaced.get(t, t) for name, t in signature.outputs.items()}
    return replace(signature, outputs=outputs)
