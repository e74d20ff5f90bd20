"""The layout of images at the model's inputs and outputs: NCHW becomes NHWC.

Operators that read or write them as images tell where the channels are.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from dataclasses import replace

from twinfer.converter.facts import Moves
from twinfer.converter.passes._layout import (
    Order,
    after,
    cost,
    flexible,
    inverse,
    order_of,
    transpose,
    transpose_tensor,
    values,
)
from twinfer.converter.passes._rewrite import View, rebuild
from twinfer.converter.passes.transposes import transposes
from twinfer.converter.table import row_of
from twinfer.runtime.errors import InvalidArgumentError, ModelWarning
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.shapes import is_open

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
    second = any(place == 1 for place in places.values())
    last = any(place == len(t.shape) - 1 for t, place in places.items())
    stated = graph.extra.get(CHANNELS_FIRST, ()) if second or not last else ()
    return [t for t, place in places.items() if (t.name in stated if place is None else place == 1)]


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


def channels_last(graph: Graph, names: Collection[str] = ()) -> Graph:
    """The graph whose inputs and outputs have the channels last where they had them second. Names stay.

    ``names`` says which ends, of three dimensions or more. Without names, all ends of four dimensions with the channels
    second are turned; a ModelWarning tells if there are none. A TRANSPOSE beside each keeps the meaning; the pass
    ``transposes`` removes it. Raises InvalidArgumentError for unknown names, and for ends that have their channels last
    already.
    """
    ends = [t for t in dict.fromkeys((*graph.inputs, *graph.outputs)) if len(t.shape) > 2]
    first = channels_first(graph, ends)
    wanted = [t for t in ends if t.name in names] if names else [t for t in first if len(t.shape) == 4]
    known = {t.name: t for t in ends}
    for name in names:
        if name not in known:
            there = ", ".join(map(repr, known)) or "none"
            raise InvalidArgumentError(
                f"no input or output with channels is called {name!r}; those of three dimensions and more: {there}"
            )
        if known[name] not in first:
            raise InvalidArgumentError(f"{known[name]} has its channels last already: leave it out of channels_last")
    if not wanted:
        images = [str(t) for t in ends if len(t.shape) == 4]
        there = f"; name what is meant: channels_last={[t.name for t in ends]}" if ends else ""
        why = f"{', '.join(images)} {'have' if len(images) > 1 else 'has'} the channels last already"
        why = why if images else f"no input or output has four dimensions{there}"
        warnings.warn(f"channels_last changes nothing: {why}", ModelWarning, stacklevel=5)
    for tensor in wanted:
        graph = _with_end(graph, tensor)
    stated = set(graph.extra.get(CHANNELS_FIRST, ())) - {t.name for t in wanted}
    return replace(graph, extra={**graph.extra, CHANNELS_FIRST: stated})


def nhwc_io(graph: Graph) -> Graph:
    """Changes the interface: inputs and outputs of four dimensions that come in NCHW are NHWC afterwards, under their
    names, wherever that saves transposes. Not part of the pipeline; run ``transposes`` before it.

    Values that were NCHW must then be fed, and come out, as ``value.transpose(0, 2, 3, 1)``.
    """
    for tensor in (*graph.inputs, *graph.outputs):
        if len(tensor.shape) == 4 and not is_open(tensor) and tensor.data is None:
            changed = transposes(_with_end(graph, tensor))
            graph = changed if cost(changed) < cost(graph) else graph
    return graph


def _with_end(graph: Graph, old: Tensor) -> Graph:
    """The graph with the channels of an input or output last, and a TRANSPOSE beside it."""
    order = (0, *range(2, len(old.shape)), 1)
    new = transpose_tensor(old, order, old.name)
    nodes = list(graph.nodes)
    if old in graph.inputs:
        nodes.insert(0, transpose(new, inverse(order), old))
    else:
        nodes.append(transpose(old, order, new))
    inputs = tuple(new if t is old else t for t in graph.inputs)
    outputs = tuple(new if t is old and old not in graph.inputs else t for t in graph.outputs)
    signatures = tuple(signature.over(lambda t: new if t is old else t) for signature in graph.signatures)
    return rebuild(replace(graph, inputs=inputs, outputs=outputs, signatures=signatures), nodes)
