"""Operators that clip, the ranges they clip to, and what is known of a tensor's range."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from twinfer.converter.passes._rewrite import View, scalar
from twinfer.converter.table import row_of
from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.ops.core.activation import RANGES, quantized_range

#: Least and greatest value: real numbers; for int8 tensors the stored ones.
Range = tuple[float, float]


def whole(tensor: Tensor) -> Range:
    """All that the type can hold."""
    if tensor.type == "FLOAT32":
        return -math.inf, math.inf
    info = np.iinfo(tensor.dtype)
    return float(info.min), float(info.max)


def activation_range(name: str, tensor: Tensor) -> Range | None:
    """The range that an activation clips a float32 or int8 tensor to; None if it is no clip or the integers have no
    scale."""
    if name == "NONE":
        return whole(tensor)
    if name not in RANGES:
        return None
    if tensor.type == "FLOAT32":
        low, high = RANGES[name]
        return -math.inf if low is None else low, math.inf if high is None else high
    if tensor.quant is None or tensor.quant.per_channel:
        return None
    node = Node("RELU", (tensor,), (tensor,), {"fused_activation_function": name})
    return quantized_range(node, tensor)


def clip_of(node: Node) -> tuple[Tensor, Range] | None:
    """What a node clips, and to which range; None if it does anything else, such as requantise."""
    clamps = row_of(node).clamps
    if not (clamps or node.op in ("MINIMUM", "MAXIMUM")) or node.output.type not in ("FLOAT32", "INT8"):
        return None
    if clamps:
        span = activation_range(node.op, node.output)
        return (node.input(0), span) if span and _alike(node.input(0), node.output) else None
    for i in (0, 1):
        x, bound = node.input(i), scalar(node.input(1 - i))
        if bound is not None and x.data is None and x.shape == node.output.shape and _alike(x, node.output):
            low, high = whole(node.output)
            return x, (max(low, bound), high) if node.op == "MAXIMUM" else (low, min(high, bound))
    return None


def _alike(x: Tensor, y: Tensor) -> bool:
    return x.quant == y.quant and x.type == y.type and not x.variable and not y.variable


def both(a: Range, b: Range) -> Range:
    """The range after clip a and then clip b."""
    return min(max(a[0], b[0]), b[1]), max(min(a[1], b[1]), b[0])


def named(span: Range, tensor: Tensor, names: Iterable[str]) -> str | None:
    """Which of the activations clips the tensor to exactly this range."""
    return next((name for name in names if activation_range(name, tensor) == span), None)


def bounds(view: View, tensor: Tensor) -> Range:
    """A range that holds all values of the tensor, as far as its producer tells."""
    span, node = whole(tensor), view.producer(tensor)
    if node is None or tensor.type not in ("FLOAT32", "INT8") or len(node.outputs) != 1:
        return span
    row = row_of(node)
    if (source := _moved(node)) is not None and source.type == tensor.type and source.quant == tensor.quant:
        span = bounds(view, source)
    fused = node.op if row.clamps else str(node.options.get("fused_activation_function", "NONE"))
    own = clip_of(node)
    if own is not None:
        span = both(bounds(view, own[0]), own[1])
    elif (active := activation_range(fused, tensor)) is not None:
        span = both(span, active)
    return both(span, row.range) if tensor.type == "FLOAT32" else span


def _moved(node: Node) -> Tensor | None:
    """The input that all elements of the results come from; None if there is no such input."""
    row = row_of(node)
    positions = row.carrying(node)
    return node.input(positions[0]) if row.moves and not row.fills and len(positions) == 1 else None
