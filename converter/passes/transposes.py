"""Transposes are moved until they meet, then merged, cancelled or absorbed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.facts import Moves
from twinfer.converter.passes._layout import (
    Order,
    after,
    choose_orders,
    inverse,
    only_ones,
    order_of,
    sorted_orders,
    transpose,
    transpose_tensor,
)
from twinfer.converter.passes._rewrite import Change, View, bypass, constant, rewrite, touches_state
from twinfer.converter.passes.reshapes import per_channel, reshaped
from twinfer.converter.table import row_of
from twinfer.runtime.graph import DTYPES, Graph, Node, Quant, Tensor
from twinfer.runtime.shapes import is_open

#: Where the pipeline runs the pass (``passes/__init__.py``).
PLACES = (70,)

NHWC: Order = (0, 2, 3, 1)


def transposes(graph: Graph) -> Graph:
    """Leaves as few and small TRANSPOSEs as possible.

    Two in a row become one. Constants are transposed here. FULLY_CONNECTED around a flattening takes the order into its
    weights. Element-wise operators, CONCATENATION, PAD, SPLIT, SLICE, reductions and the like work in any order: groups
    of them change it together where that moves fewer bytes. So a convolutional net from NCHW keeps transposes at its
    inputs and outputs only. A transpose that moves no element becomes a RESHAPE.
    """
    return rewrite(choose_orders(rewrite(graph, _local), _local), _no_move)


# -- rules for one node -----------------------------------------------------------------------------------------------


def _local(view: View, node: Node) -> Change | None:
    order = order_of(node)
    if order is not None:
        return _merge(view, node, order) or _rows(view, node, order)
    if touches_state(node):
        return None
    row = row_of(node)
    if row.reduces:
        return _reduction(view, node)
    if node.op == "FULLY_CONNECTED":
        return _columns(view, node)
    return _single_dimensions(view, node) if row.moves is Moves.RESHAPES else None


def _merge(view: View, node: Node, order: Order) -> Change | None:
    """Merges a TRANSPOSE of a constant, one that moves nothing, or one behind another."""
    x, y = node.input(0), node.output
    if x.data is not None and x.type in DTYPES and not x.extra and y not in view.public:
        return Change((node,), (), {y: transpose_tensor(x, order, y.name)})
    if order == tuple(range(len(order))) and (change := bypass(view, node, x, y)):
        return change
    before = view.producer(x)
    first = order_of(before)
    if before is None or first is None:
        return None
    return Change((node,), (transpose(before.input(0), after(first, order), y),))


def _single_dimensions(view: View, node: Node) -> Change | None:
    """RESHAPE(TRANSPOSE(x)) that only adds or drops dimensions of one element: the transpose goes behind it."""
    before, order = _before(view, node)
    if before is None or order is None:
        return None
    x, y = before.input(0), node.output
    places = [i for i, extent in enumerate(y.shape) if extent != 1]
    sources = [i for i in order if x.shape[i] != 1]
    if [y.shape[i] for i in places] != [x.shape[i] for i in sources] or per_channel(x, y):
        return None
    again = list(range(len(y.shape)))
    for place, rank in zip(places, sorted_orders(sources), strict=True):
        again[place] = places[rank]
    return _put_behind(view, before, node, tuple(again), lambda middle: reshaped(x, middle))


def _reduction(view: View, node: Node) -> Change | None:
    """A reduction that drops dimensions of TRANSPOSE(x): the other dimensions may keep their order."""
    before, order = _before(view, node)
    axes = node.input(1).data if len(node.inputs) > 1 else None
    if before is None or order is None or axes is None or node.options.get("keep_dims") or per_channel(node.output):
        return None
    gone = [int(a) % len(order) for a in axes.reshape(-1)]
    left = [source for i, source in enumerate(order) if i not in gone]
    moved = replace(node.input(1), data=np.array([order[a] for a in gone], axes.dtype).reshape(axes.shape))
    inputs = (before.input(0), moved)
    return _put_behind(view, before, node, sorted_orders(left), lambda y: replace(node, inputs=inputs, outputs=(y,)))


def _before(view: View, node: Node) -> tuple[Node | None, Order | None]:
    """The TRANSPOSE in front of a node that changes the rank, and its order."""
    before = view.producer(node.input(0), "TRANSPOSE")
    fixed = not is_open(node.input(0)) and not is_open(node.output) and not touches_state(node)
    return (before, order_of(before)) if fixed else (None, None)


def _put_behind(view: View, before: Node, node: Node, order: Order, make: Callable[[Tensor], Node]) -> Change | None:
    """The node without the transpose in front of it, and with what is left of it behind; None if that saves nothing."""
    y = node.output
    if order == tuple(range(len(order))):
        return Change((node,), (make(y),))
    if view.feeds(before.output) is None:
        return None
    middle = transpose_tensor(y, inverse(order), f"{y.name}/turned")
    return Change((before, node), (make(middle), transpose(middle, order, y)))


def _no_move(view: View, node: Node) -> Change | None:
    """A TRANSPOSE that leaves all elements in their order is a RESHAPE."""
    order = order_of(node)
    if order is None or not only_ones(node.input(0), order) or per_channel(node.output):
        return None
    return Change((node,), (reshaped(node.input(0), node.output),))


# -- FULLY_CONNECTED --------------------------------------------------------------------------------------------------


def _same_in_rows(shape: tuple[int, ...], order: Order, depth: int) -> NDArray[np.int64] | None:
    """Which element of a row of ``depth`` the transpose puts at each place. None if it mixes rows, if rows differ in
    this, or if there are no rows."""
    if 0 in shape:
        return None
    places = np.arange(math.prod(shape)).reshape(shape).transpose(order).reshape(-1, depth)
    within = places - np.arange(len(places))[:, None] * depth
    return np.array(within[0]) if bool((within == within[0]).all() and within.min() >= 0) else None


def _parameters(view: View, node: Node) -> Tensor | None:
    """The weights, if they and the bias may be changed here."""
    w, bias = node.input(1), node.optional(2)
    plain = w.type in DTYPES and not {"details", "sparsity"} & set(w.extra)
    own = plain and view.only_here(w) and (bias is None or bias.data is not None)
    return w if own and len(w.shape) == 2 and node.options.get("weights_format", "DEFAULT") == "DEFAULT" else None


def _columns(view: View, node: Node) -> Change | None:
    """FULLY_CONNECTED over a flattened TRANSPOSE takes the order into the columns of its weights."""
    x, w = node.input(0), _parameters(view, node)
    middle = view.producer(x, "RESHAPE", "SQUEEZE", "EXPAND_DIMS")
    before = view.producer(middle.input(0) if middle is not None else x, "TRANSPOSE")
    order = order_of(before)
    if before is None or order is None or w is None or w.data is None or is_open(x) or before.input(0).quant != x.quant:
        return None
    places = _same_in_rows(before.input(0).shape, order, w.shape[1])
    if places is None or (w.quant is not None and w.quant.per_channel and w.quant.axis):
        return None
    weights = np.empty_like(w.data)
    weights[:, places] = w.data
    flat = replace(x, name=f"{x.name}/flat", shape_signature=())
    now = replace(node, inputs=(flat, constant(weights, w.name, w.quant), *node.inputs[2:]))
    return Change((node,), (reshaped(before.input(0), flat), now))


def _rows(view: View, node: Node, order: Order) -> Change | None:
    """The TRANSPOSE of a FULLY_CONNECTED's result goes into the rows of its weights, and into the bias."""
    middle = view.feeds(node.input(0), "RESHAPE", "EXPAND_DIMS")
    dense = view.feeds(middle.input(0), "FULLY_CONNECTED") if middle is not None else None
    w = _parameters(view, dense) if dense is not None else None
    if middle is None or dense is None or w is None or w.data is None:
        return None
    places = _same_in_rows(node.input(0).shape, order, w.shape[0])
    if places is None or per_channel(dense.output) or dense.output.quant != node.output.quant:
        return None
    parameters = [None if t is None else _take(t, places) for t in dense.inputs[1:3]]
    y = replace(dense.output, name=f"{dense.output.name}/turned", shape_signature=())
    now = replace(dense, inputs=(dense.input(0), *parameters), outputs=(y,))
    return Change((dense, middle, node), (now, reshaped(y, node.output)))


def _take(t: Tensor, places: NDArray[np.int64]) -> Tensor:
    """Weights or bias with their rows, and the scales of these, in another order."""
    quant = t.quant
    if quant is not None and quant.per_channel:
        quant = Quant(quant.scale[places], quant.zero_point[places], quant.axis)
    data = np.asarray(t.data)
    rows = data.reshape(-1)[places].reshape(data.shape) if t.size == len(places) else data[places]
    return constant(rows, t.name, quant)
