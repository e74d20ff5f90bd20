"""Finds the channels of inputs and outputs by the operators that read or write them as images."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from twinfer.converter.facts import Moves
from twinfer.converter.passes._flip import values
from twinfer.converter.passes._layout import Order, after, flexible, inverse, order_of
from twinfer.converter.passes._rewrite import View
from twinfer.converter.table import row_of
from twinfer.runtime.graph import Graph, Node, Tensor

#: In ``Graph.extra``: the names of inputs and outputs that have their channels second in the source.
CHANNELS_FIRST = "channels_first"

#: A dimension that a RESHAPE has put in.
NEW = -1


def channels_first(graph: Graph, ends: Collection[Tensor]) -> list[Tensor]:
    """The inputs and outputs (``ends``) that have their channels second.

    Where no operator tells, the source does (``CHANNELS_FIRST``), unless operators contradict it at other ends.
    """
    view = View(graph)
    places = {t: _channels(view, t) for t in ends}
    second, last = (any(place == at(t) for t, place in places.items()) for at in (_second, _last))
    stated = graph.extra.get(CHANNELS_FIRST, ()) if second or not last else ()
    return [t for t, place in places.items() if (t.name in stated if place is None else place == _second(t))]


def _second(_: Tensor) -> int:
    return 1


def _last(tensor: Tensor) -> int:
    return len(tensor.shape) - 1


def _channels(view: View, end: Tensor) -> int | None:
    """Which dimension of the end is the channels of the nearest operator on images; None if there is none."""
    orders: dict[Tensor, Order] = {end: tuple(range(len(end.shape)))}
    ahead = [end]
    for tensor in ahead:
        for node in filter(None, (view.producer(tensor), *view.consumers.get(tensor, ()))):
            if row_of(node).image and tensor in (node.input(row_of(node).first), node.output):
                return orders[tensor][-1]
            near = {t: order for t, order in _near(node, tensor, orders[tensor]) if t not in orders}
            orders.update(near)
            ahead.extend(near)
    return None


def _near(node: Node, tensor: Tensor, order: Order) -> Iterator[tuple[Tensor, Order]]:
    """Tensors on the other side of a node with the same elements, and which dimensions of the end theirs are."""
    turn = order_of(node)
    if turn is not None:
        yield node.output, after(order, turn)
        yield node.input(0), after(order, inverse(turn))
    elif row_of(node).moves is Moves.RESHAPES:
        other = node.output if tensor is node.input(0) else node.input(0)
        reshaped = _with_row(tensor, other, order)
        if reshaped is not None:
            yield other, reshaped
    elif flexible(node, tuple(range(len(node.output.shape)))) and tensor in (same := [*values(node), *node.outputs]):
        yield from ((t, order) for t in same)


def _with_row(x: Tensor, y: Tensor, order: Order) -> Order | None:
    """The order through a reshape of lines to images of one row, or back."""
    for at in (1, 2):
        if y.shape == (*x.shape[:at], 1, *x.shape[at:]):
            return (*order[:at], NEW, *order[at:])
        if x.shape == (*y.shape[:at], 1, *y.shape[at:]):
            return (*order[:at], *order[at + 1 :])
    return None
