"""Operators over tensors whose dimensions come in another order; groups of them get one where that saves transposes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.converter.facts import Dimensions
from twinfer.converter.passes._rewrite import Rule, View, apply_near, constant, new_node, touches_state, with_options
from twinfer.converter.table import row_of
from twinfer.runtime.graph import DTYPES, EMPTY, Graph, Node, Quant, Tensor
from twinfer.runtime.shapes import is_open

#: Dimension i of the result is dimension ``order[i]`` of the input.
Order = tuple[int, ...]
_STRIDED_FLAGS = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset")


def inverse(order: Order) -> Order:
    return tuple(order.index(i) for i in range(len(order)))


def after(first: Order, second: Order) -> Order:
    """One transpose for ``first`` and ``second`` behind it."""
    return tuple(first[i] for i in second)


def order_of(node: Node | None) -> Order | None:
    """The order of a TRANSPOSE with fixed shapes; None for any other operator."""
    if node is None or node.op != "TRANSPOSE" or node.input(1).data is None or touches_state(node):
        return None
    x, y, order = node.input(0), node.output, tuple(int(i) for i in np.asarray(node.input(1).data).reshape(-1))
    plain = not is_open(x) and not is_open(y) and x.type == y.type and sorted(order) == list(range(len(x.shape)))
    return order if plain and transpose_quant(x.quant, order) == y.quant else None


def transpose(x: Tensor, order: Order, y: Tensor) -> Node:
    return new_node("TRANSPOSE", [x, constant(np.array(order, np.int32), f"{y.name}/order")], y)


def transpose_quant(quant: Quant | None, order: Order) -> Quant | None:
    """The quantisation of a transposed tensor. An axis that the tensor does not have, as some files say, stays."""
    if quant is None or not quant.per_channel or quant.axis not in order:
        return quant
    return Quant(quant.scale, quant.zero_point, order.index(quant.axis))


def transpose_tensor(x: Tensor, order: Order, name: str) -> Tensor:
    shape = tuple(x.shape[i] for i in order)
    data = None if x.data is None else np.ascontiguousarray(x.data.transpose(order))
    quant = transpose_quant(x.quant, order)
    return replace(x, name=name, shape=shape, quant=quant, data=data, shape_signature=())


def operands(node: Node) -> tuple[int, ...]:
    """Positions of the inputs that hold elements: all of an element-wise operator, conditions included."""
    row = row_of(node)
    return tuple(range(len(node.inputs))) if row.elementwise else tuple(row.carrying(node))


def flexible(node: Node, order: Order) -> bool:
    """Whether the operator can work on tensors in that order of dimensions. All its outputs must have that rank."""
    row, rank = row_of(node), len(order)
    if touches_state(node) or any(len(t.shape) != rank or is_open(t) for t in node.outputs):
        return False
    if not all(_movable(node, node.inputs[i], rank) for i in operands(node)):
        return False
    return row.elementwise or (row.dimensions is not None and _adapts(node, row.dimensions, order))


def _adapts(node: Node, dimensions: Dimensions, order: Order) -> bool:
    """Whether all constants and options that name dimensions can be changed to the order."""
    settings = (*dimensions.rows, *dimensions.axes)
    if any(i >= len(node.inputs) or node.input(i).data is None for i in settings):
        return False
    if node.op == "GATHER":
        return len(node.input(1).shape) == 1 and not node.options.get("batch_dims")
    if node.op == "STRIDED_SLICE":
        return not any(node.options.get(flag) for flag in _STRIDED_FLAGS)
    return not dimensions.last or order[-1] == len(order) - 1


def _movable(node: Node, tensor: Tensor | None, rank: int) -> bool:
    if tensor is None or is_open(tensor):
        return tensor is None
    elementwise = row_of(node).elementwise
    if tensor.size == 1 and elementwise and len(tensor.shape) <= 1:
        return True
    plain = tensor.data is None or (tensor.type in DTYPES and tensor.extra == EMPTY)
    broadcast = tensor.data is not None and elementwise and len(tensor.shape) < rank
    return plain and (len(tensor.shape) == rank or (broadcast and not (tensor.quant and tensor.quant.per_channel)))


def operand(tensor: Tensor | None, order: Order, moved: Mapping[Tensor, Tensor]) -> Tensor | None:
    """A value as an operator in the other order reads it: from ``moved``, or a constant transposed here."""
    if tensor is None or tensor in moved or tensor.data is None or len(tensor.shape) <= 1 >= tensor.size:
        return None if tensor is None else moved.get(tensor, tensor)
    data = tensor.data.reshape((1,) * (len(order) - len(tensor.shape)) + tensor.shape)
    return transpose_tensor(replace(tensor, shape=data.shape, data=data), order, tensor.name)


def reorder(node: Node, order: Order, moved: Mapping[Tensor, Tensor]) -> Node:
    """A ``flexible`` operator over tensors in another order; ``moved`` maps its values to these."""
    inputs = list(node.inputs)
    for i in operands(node):
        inputs[i] = operand(node.inputs[i], order, moved)
    dimensions = row_of(node).dimensions or Dimensions()
    for i in dimensions.rows:
        inputs[i] = _like(node.input(i), node.constant(i)[list(order)])
    for i in dimensions.axes:
        axes = node.constant(i).reshape(-1)
        inputs[i] = _like(node.input(i), [order.index(int(a) % len(order)) for a in axes])
    now = replace(node, inputs=tuple(inputs), outputs=tuple(moved[t] for t in node.outputs))
    changed = _options(node, dimensions, order)
    return with_options(now, **changed) if changed else now


def _options(node: Node, dimensions: Dimensions, order: Order) -> dict[str, Any]:
    if dimensions.option:
        return {"axis": order.index(int(node.options.get("axis", 0)) % len(order))}
    if node.op != "STRIDED_SLICE":
        return {}
    masks = {name: int(node.options.get(name, 0)) for name in ("begin_mask", "end_mask")}
    return {name: sum((bits >> old & 1) << new for new, old in enumerate(order)) for name, bits in masks.items()}


def _like(tensor: Tensor, data: Any) -> Tensor:
    return replace(tensor, data=np.asarray(data, tensor.dtype).reshape(tensor.shape))


def only_ones(x: Tensor, order: Order) -> bool:
    """Whether a transpose moves only dimensions of one element, so that all elements stay in their order."""
    large = [i for i in order if x.shape[i] != 1]
    return large == sorted(large)


def sorted_orders(orders: Sequence[int]) -> Order:
    """The place of each number once they are sorted."""
    return tuple(sorted(orders).index(i) for i in orders)


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
    return _Turned(graph).cost


def choose_orders(graph: Graph, tidy: Rule) -> Graph:
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
        # the transposes behind the group, as transposes of the new results
        behind = {
            n: [transpose(self.moved[n.input(0)], after(inverse(self.order), order), n.output)]
            for n in readers
            if (order := order_of(n)) is not None
        }
        return {**inside, **behind}

    def _inside(self, node: Node) -> Sequence[Node]:
        entered = [self._enter(t) for t in dict.fromkeys(values(node)) if t not in self.moved]
        kept = [t for t in node.outputs if self._wanted(t)]
        for t in node.outputs:
            self.moved[t] = transpose_tensor(t, self.order, f"{t.name}/turned" if t in kept else t.name)
        back = [transpose(self.moved[t], inverse(self.order), t) for t in kept]
        return [*entered, reorder(node, self.order, self.moved), *back]

    def _enter(self, tensor: Tensor) -> Node:
        """Transposes a value that enters the group, merged with the transpose that it comes from, if any."""
        self.moved[tensor] = transpose_tensor(tensor, self.order, f"{tensor.name}/turned")
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
