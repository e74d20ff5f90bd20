"""Groups of operators whose tensors take another order of dimensions together, where that saves transposes."""

from __future__ import annotations

from twinfer.converter.passes._layout import (
    Order,
    after,
    flexible,
    inverse,
    only_ones,
    operands,
    order_of,
    reordered,
    transpose,
    turned_tensor,
)
from twinfer.converter.passes._rewrite import Pass, View, needed, rebuilt
from twinfer.runtime.graph import Graph, Node, Tensor

#: Bytes moved by transposes, and how many of them are neither at an input nor at an output.
Cost = tuple[int, int]


def cost(graph: Graph) -> Cost:
    """What the transposes of a graph cost; those of the same tensor in the same order count once."""
    ends, moves = {*graph.inputs, *graph.outputs}, dict[tuple[Tensor, Order], Node]()
    for node in graph.nodes:
        order = order_of(node)
        if order is not None and not only_ones(node.input(0), order):
            moves.setdefault((node.input(0), order), node)
    inner = sum(not {n.input(0), n.output} & ends for n in moves.values())
    return sum(n.output.nbytes for n in moves.values()), inner


def settled(graph: Graph, tidy: Pass) -> Graph:
    """The graph with its operators in orders that no group changes for less: of one group after the other all take
    another order together where the transposes, tidied up, cost less then."""
    at, quiet = 0, 0
    while quiet < len(seeds := _seeds(view := View(graph))):
        better = _cheaper(view, *seeds[at % len(seeds)], tidy)
        at, quiet = (at + 1, quiet + 1) if better is None else (at % len(seeds), 0)
        graph = better or graph
    return graph


def _cheaper(view: View, seed: Node, order: Order, tidy: Pass) -> Graph | None:
    """The graph with the group of an operator in another order, if that pays."""
    flipped, now = _Flip(view, _group(view, seed, order), order).graph(), cost(view.graph)
    if cost(flipped) < now:
        return tidy(flipped)
    flipped = tidy(flipped)
    return flipped if cost(flipped) < now else None


def _seeds(view: View) -> list[tuple[Node, Order]]:
    """Operators beside a transpose, and the order in which they would not need it."""
    found: dict[tuple[Node, Order], None] = {}
    for node in view.graph.nodes:
        order = order_of(node)
        if order is None:
            continue
        around = [(reader, inverse(order)) for reader in view.consumers.get(node.output, ())]
        maker = view.producer(node.input(0))
        around += [(maker, order)] if maker is not None else []
        found.update({(n, o): None for n, o in around if n.op != "TRANSPOSE" and flexible(n, o)})
    return list(found)


def _group(view: View, seed: Node, order: Order) -> frozenset[Node]:
    """The operator and all that can go along with it: over its values, over theirs, and so on."""
    group, ahead = {seed}, [seed]
    while ahead:
        node = ahead.pop()
        for tensor in (*values(node), *node.outputs):
            maker = view.producer(tensor)
            for near in (*([maker] if maker else []), *view.consumers.get(tensor, ())):
                joins = tensor in near.outputs or tensor in values(near)
                if near not in group and joins and near.op != "TRANSPOSE" and flexible(near, order):
                    group.add(near)
                    ahead.append(near)
    return frozenset(group)


def values(node: Node) -> list[Tensor]:
    """What the operator computes with, but for constants and single numbers."""
    inputs = [node.inputs[i] for i in operands(node)]
    rank = len(node.output.shape)
    return [t for t in inputs if t is not None and t.data is None and len(t.shape) == rank]


class _Flip:
    """A graph while a group of its operators is put into another order."""

    def __init__(self, view: View, group: frozenset[Node], order: Order) -> None:
        self.view, self.group, self.order = view, group, order
        self.moved: dict[Tensor, Tensor] = {}
        self.nodes: list[Node] = []

    def graph(self) -> Graph:
        for node in self.view.graph.nodes:
            if node in self.group:
                self._inside(node)
            else:
                self.nodes.append(self._behind(node))
        return rebuilt(self.view.graph, needed(self.view.graph, self.nodes))

    def _inside(self, node: Node) -> None:
        for tensor in values(node):
            if tensor not in self.moved:
                self._enter(tensor)
        kept = [t for t in node.outputs if self._wanted(t)]
        for t in node.outputs:
            self.moved[t] = turned_tensor(t, self.order, f"{t.name}/turned" if t in kept else t.name)
        self.nodes.append(reordered(node, self.order, self.moved))
        self.nodes += [transpose(self.moved[t], inverse(self.order), t) for t in kept]

    def _enter(self, tensor: Tensor) -> None:
        """Transposes a value of the group that is made outside of it, in one step with a transpose that made it."""
        self.moved[tensor] = turned_tensor(tensor, self.order, f"{tensor.name}/turned")
        maker = self.view.producer(tensor)
        before = order_of(maker)
        source, order = tensor, self.order
        if maker is not None and before is not None:
            source, order = maker.input(0), after(before, self.order)
        self.nodes.append(transpose(source, order, self.moved[tensor]))

    def _wanted(self, tensor: Tensor) -> bool:
        """Whether anything outside of the group still needs the value in its old order; transposes adapt."""
        readers = self.view.consumers.get(tensor, ())
        inside = (order_of(n) is not None or (n in self.group and tensor in values(n)) for n in readers)
        return tensor in self.view.public or not all(inside)

    def _behind(self, node: Node) -> Node:
        """A node outside of the group: a transpose of one of its results takes the new one."""
        order = order_of(node)
        turned = self.moved.get(node.input(0)) if order is not None else None
        makes = self.view.producer(node.input(0)) if turned is not None else None
        if order is None or turned is None or makes not in self.group:
            return node
        return transpose(turned, after(inverse(self.order), order), node.output)
