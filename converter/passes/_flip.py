"""Gives groups of operators another order of dimensions where that saves transposes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

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
from twinfer.converter.passes._rewrite import Rule, View, apply_near
from twinfer.runtime.graph import Graph, Node, Tensor

#: Bytes moved by transposes, and the number of transposes that are neither at an input nor at an output.
Cost = tuple[int, int]


class _Turned(View):
    """A graph with what its transposes cost; those of the same tensor in the same order count once."""

    def __init__(self, graph: Graph) -> None:
        self._ends, self._moves = {*graph.inputs, *graph.outputs}, Counter[tuple[Tensor, Order, bool]]()
        self.cost: Cost = (0, 0)
        super().__init__(graph)

    def link(self, node: Node) -> None:
        super().link(node)
        self._count(node, 1)

    def unlink(self, node: Node) -> None:
        super().unlink(node)
        self._count(node, -1)

    def _count(self, node: Node, more: int) -> None:
        order = order_of(node)
        if order is None or only_ones(node.input(0), order):
            return
        x, at_end = node.input(0), not {node.input(0), node.output}.isdisjoint(self._ends)
        before = self._share(x, order)
        self._moves[x, order, at_end] += more
        after = self._share(x, order)
        self.cost = self.cost[0] + after[0] - before[0], self.cost[1] + after[1] - before[1]

    def _share(self, x: Tensor, order: Order) -> Cost:
        """The cost of all transposes of the tensor to that order."""
        inner, at_end = self._moves[x, order, False] > 0, self._moves[x, order, True] > 0
        return x.nbytes * (inner or at_end), int(inner and not at_end)


def cost(graph: Graph) -> Cost:
    """The cost of the transposes of a graph."""
    return _Turned(graph).cost


def settled(graph: Graph, tidy: Rule) -> Graph:
    """The graph with its operators in cheap orders. Each group in turn tries another order and keeps it if the
    transposes cost less once ``tidy`` was applied around the group."""
    view = _Turned(graph)
    while _round(view, tidy):
        pass
    return view.result()


def _round(view: _Turned, tidy: Rule) -> bool:
    """Tries every group once; whether anything was changed."""
    tried, better = set[tuple[Node, Order]](), False
    for seed, order in _seeds(view):
        if seed in view and (seed, order) not in tried:
            group = _group(view, seed, order)
            tried.update((node, order) for node in group)
            better |= _cheaper(view, group, order, tidy)
    return better


def _cheaper(view: _Turned, group: frozenset[Node], order: Order, tidy: Rule) -> bool:
    """Puts a group in another order if that pays; whether it did."""
    before, mark = view.cost, view.mark
    apply_near(view, tidy, view.swap_all(_Flip(view, group, order).swaps()))
    if view.cost < before:
        return True
    view.undo(mark)
    return False


def _seeds(view: View) -> list[tuple[Node, Order]]:
    """Operators beside a transpose, each with the order that makes the transpose needless."""
    seeds: dict[tuple[Node, Order], None] = {}
    for node in view:
        order = order_of(node)
        if order is None:
            continue
        around = [(reader, inverse(order)) for reader in view.consumers.get(node.output, ())]
        maker = view.producer(node.input(0))
        around += [(maker, order)] if maker is not None else []
        seeds.update({(n, o): None for n, o in around if n.op != "TRANSPOSE" and flexible(n, o)})
    return list(seeds)


def _group(view: View, seed: Node, order: Order) -> frozenset[Node]:
    """The operator, and all that can change their order with it: the neighbours that share its values, theirs, and so
    on."""
    group, ahead = {seed}, [seed]
    while ahead:
        for near in _around(view, ahead.pop()):
            if near not in group and near.op != "TRANSPOSE" and flexible(near, order):
                group.add(near)
                ahead.append(near)
    return frozenset(group)


def _around(view: View, node: Node) -> Iterator[Node]:
    """The nodes that have a value in common with this one."""
    for tensor in (*values(node), *node.outputs):
        maker = view.producer(tensor)
        if maker is not None:
            yield maker
        yield from (reader for reader in view.consumers.get(tensor, ()) if tensor in values(reader))


def values(node: Node) -> list[Tensor]:
    """The operator's values, without constants and single numbers."""
    inputs = [node.inputs[i] for i in operands(node)]
    rank = len(node.output.shape)
    return [t for t in inputs if t is not None and t.data is None and len(t.shape) == rank]


class _Flip:
    """The changes that put a group of operators into another order."""

    def __init__(self, view: View, group: frozenset[Node], order: Order) -> None:
        self.view, self.group, self.order = view, group, order
        self.moved: dict[Tensor, Tensor] = {}

    def swaps(self) -> dict[Node, Sequence[Node]]:
        """The replacements of every node of the group, and of the transposes of its results."""
        inside = {node: self._inside(node) for node in sorted(self.group, key=self.view.position)}
        readers = [n for node in inside for t in node.outputs for n in self.view.consumers.get(t, ())]
        behind = {n: [self._behind(n, order)] for n in readers if (order := order_of(n)) is not None}
        return {**inside, **behind}

    def _inside(self, node: Node) -> Sequence[Node]:
        entered = [self._enter(t) for t in dict.fromkeys(values(node)) if t not in self.moved]
        kept = [t for t in node.outputs if self._wanted(t)]
        for t in node.outputs:
            self.moved[t] = turned_tensor(t, self.order, f"{t.name}/turned" if t in kept else t.name)
        back = [transpose(self.moved[t], inverse(self.order), t) for t in kept]
        return [*entered, reordered(node, self.order, self.moved), *back]

    def _enter(self, tensor: Tensor) -> Node:
        """Transposes a value that enters the group, merged with the transpose that it comes from, if any."""
        self.moved[tensor] = turned_tensor(tensor, self.order, f"{tensor.name}/turned")
        maker = self.view.producer(tensor)
        before = order_of(maker)
        source, order = tensor, self.order
        if maker is not None and before is not None:
            source, order = maker.input(0), after(before, self.order)
        return transpose(source, order, self.moved[tensor])

    def _wanted(self, tensor: Tensor) -> bool:
        """Whether anything outside of the group still needs the value in its old order; transposes adapt."""
        readers = self.view.consumers.get(tensor, ())
        inside = (order_of(n) is not None or (n in self.group and tensor in values(n)) for n in readers)
        return tensor in self.view.public or not all(inside)

    def _behind(self, node: Node, order: Order) -> Node:
        """A transpose behind the group, as a transpose of the new result."""
        return transpose(self.moved[node.input(0)], after(inverse(self.order), order), node.output)
