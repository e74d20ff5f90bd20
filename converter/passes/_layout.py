"""Operators over tensors whose dimensions come in another order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from twinfer.converter.facts import Dimensions
from twinfer.converter.passes._rewrite import constant, new_node, touches_state, with_options
from twinfer.converter.table import row_of
from twinfer.runtime.graph import DTYPES, EMPTY, Node, Quant, Tensor
from twinfer.runtime.shapes import is_open

#: Dimension i of the result is dimension ``order[i]`` of the input.
Order = tuple[int, ...]

_STRIDED_FLAGS = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset")


def inverse(order: Order) -> Order:
    """The order that puts everything back."""
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
    return order if plain and turned(x.quant, order) == y.quant else None


def transpose(x: Tensor, order: Order, y: Tensor) -> Node:
    """The TRANSPOSE of x to y."""
    return new_node("TRANSPOSE", [x, constant(np.array(order, np.int32), f"{y.name}/order")], y)


def turned(quant: Quant | None, order: Order) -> Quant | None:
    """The quantisation of a transposed tensor. An axis that the tensor does not have, as some files say, stays."""
    if quant is None or not quant.per_channel or quant.axis not in order:
        return quant
    return Quant(quant.scale, quant.zero_point, order.index(quant.axis))


def turned_tensor(x: Tensor, order: Order, name: str) -> Tensor:
    """A tensor, or constant, with its dimensions in another order."""
    shape = tuple(x.shape[i] for i in order)
    data = None if x.data is None else np.ascontiguousarray(x.data.transpose(order))
    quant = turned(x.quant, order)
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
    return turned_tensor(replace(tensor, shape=data.shape, data=data), order, tensor.name)


def reordered(node: Node, order: Order, moved: Mapping[Tensor, Tensor]) -> Node:
    """A ``flexible`` operator over tensors in another order; ``moved`` maps its values to these."""
    inputs = list(node.inputs)
    for i in operands(node):
        inputs[i] = operand(node.inputs[i], order, moved)
    dimensions = row_of(node).dimensions or Dimensions()
    for i in dimensions.rows:
        inputs[i] = _like(node.input(i), node.constant(i)[list(order)])
    for i in dimensions.axes:
        inputs[i] = _like(node.input(i), _axes(node.constant(i), order))
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


def _axes(axes: Any, order: Order) -> list[int]:
    return [order.index(int(a) % len(order)) for a in np.asarray(axes).reshape(-1)]


def only_ones(x: Tensor, order: Order) -> bool:
    """Whether a transpose moves only dimensions of one element, so that all elements stay in their order."""
    large = [i for i in order if x.shape[i] != 1]
    return large == sorted(large)


def sorted_orders(orders: Sequence[int]) -> Order:
    """The place of each number once they are sorted."""
    return tuple(sorted(orders).index(i) for i in orders)
