"""Chains of RESHAPE, SQUEEZE and EXPAND_DIMS become one RESHAPE or none."""

from __future__ import annotations

import numpy as np

from twinfer.converter.passes._rewrite import Change, View, bypass, constant, made, rewrite, touches_state, works
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.shapes import is_open

RESHAPES = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")


def reshapes(graph: Graph) -> Graph:
    """Only the last of several reshapes in a row counts; one to the shape that is there already goes, and so does
    one that only flattens in front of FULLY_CONNECTED, which does that itself. Open dimensions are left alone."""
    return rewrite(graph, _merge)


def reshaped(x: Tensor, y: Tensor) -> Node:
    """The RESHAPE of x to y."""
    return made("RESHAPE", [x, constant(np.array(y.shape, np.int32), f"{y.name}/shape")], y, new_shape=y.shape)


def _merge(view: View, node: Node) -> Change | None:
    if node.op == "FULLY_CONNECTED":
        return _flattened(view, node)
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
    now = Node(node.op, (source, *node.inputs[1:]), node.outputs, node.options, node.version, extra=node.extra)
    return Change((node,), (now,)) if works(now) else None


def _open(node: Node) -> bool:
    return any(t is not None and is_open(t) for t in (*node.inputs, *node.outputs))
