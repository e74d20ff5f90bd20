"""Chains of RESHAPE, SQUEEZE and EXPAND_DIMS become one RESHAPE or none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinfer.converter.passes._layout import ELEMENTWISE
from twinfer.converter.passes._rewrite import Change, View, bypass, constant, made, rewrite, touches_state, works
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.shapes import is_open

RESHAPES = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")


def reshapes(graph: Graph) -> Graph:
    """Only the last of several reshapes in a row counts; one to the shape that is there already goes, and so does
    one that only flattens in front of FULLY_CONNECTED, which does that itself. Element-wise operators come before
    reshapes, where they meet what they fuse with. Open dimensions are left alone."""
    return rewrite(graph, _merge)


def reshaped(x: Tensor, y: Tensor) -> Node:
    """The RESHAPE of x to y."""
    return made("RESHAPE", [x, constant(np.array(y.shape, np.int32), f"{y.name}/shape")], y, new_shape=y.shape)


def _merge(view: View, node: Node) -> Change | None:
    if node.op == "FULLY_CONNECTED":
        return _flattened(view, node)
    if node.op in ELEMENTWISE:
        return _behind_elements(view, node)
    if node.op not in RESHAPES or _open(node) or node.input(0).type != node.output.type:
        return None
    x, y = node.input(0), node.output
    if x.quant == y.quant and x.shape == y.shape and (change := bypass(view, node, x, y)):
        return change
    first = _behind(view, x)
    return Change((node,), (reshaped(first, y),)) if first is not None and not touches_state(node) else None


def _behind(view: View, x: Tensor) -> Tensor | None:
    """What x is a reshape of."""
    before = view.producer(x, *RESHAPES)
    if before is None or _open(before) or touches_state(before) or before.input(0).quant != x.quant:
        return None
    return before.input(0)


def _flattened(view: View, node: Node) -> Change | None:
    source = None if node.options.get("keep_num_dims") else _behind(view, node.input(0))
    if source is None or touches_state(node):
        return None
    now = replace(node, inputs=(source, *node.inputs[1:]))
    return Change((node,), (now,)) if works(now) else None


def _behind_elements(view: View, node: Node) -> Change | None:
    """f(RESHAPE(x)) becomes RESHAPE(f(x)) where f has no other operand than single numbers."""
    values = [t for t in node.inputs if t is not None and t.data is None]
    before = view.feeds(values[0], *RESHAPES) if len(values) == 1 and not touches_state(node) else None
    numbers = all(t in values or (t is not None and t.size == 1 and len(t.shape) <= 1) for t in node.inputs)
    if before is None or not numbers or _open(node) or _open(before) or not before.input(0).shape:
        return None
    x, y = before.input(0), node.output
    if x.quant != values[0].quant or x.type != values[0].type or y.shape != values[0].shape or _per_channel(x, y):
        return None
    first = replace(y, name=f"{y.name}/flat", shape=x.shape)
    inputs = tuple(x if t is values[0] else t for t in node.inputs)
    return Change((before, node), (replace(node, inputs=inputs, outputs=(first,)), reshaped(first, y)))


def _per_channel(*tensors: Tensor) -> bool:
    return any(t.quant is not None and t.quant.per_channel for t in tensors)


def _open(node: Node) -> bool:
    return any(t is not None and is_open(t) for t in (*node.inputs, *node.outputs))
