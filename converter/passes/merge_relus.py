"""Clips: several in a row become one, those that clip nothing go."""

from __future__ import annotations

import numpy as np

from twinfer.converter.passes._clip import RELUS, Range, both, bounds, clipped, named, whole
from twinfer.converter.passes._rewrite import Change, View, bypass, constant, made, rewrite, touches_state
from twinfer.runtime.graph import Graph, Node, Tensor


def merge_relus(graph: Graph) -> Graph:
    """RELU, RELU6, RELU_N1_TO_1, RELU_0_TO_1, and MINIMUM and MAXIMUM with one number: where all values lie inside
    of the range already (what the producer leaves, what int8 can hold) the clip goes; several become one RELU.

    int8 only where all tensors have the same quantisation.
    """
    return rewrite(graph, _merge)


def _merge(view: View, node: Node) -> Change | None:
    clip = clipped(node)
    if clip is None or touches_state(node):
        return None
    source, span = clip
    known = bounds(view, source)
    if span[0] <= known[0] and known[1] <= span[1]:
        return bypass(view, node, source, node.output)
    return _joined(view, node, source, span)


def _joined(view: View, node: Node, source: Tensor, span: Range) -> Change | None:
    """The node with the clip before it in one, if there is one operator for both; else it is made a RELU if it can."""
    before = view.feeds(source)
    inner = clipped(before) if before is not None else None
    y = node.output
    if before is not None and inner is not None and (op := _single(both(inner[1], span), inner[0], y)):
        return Change((before, node), (op,))
    name = None if node.op in RELUS else named(span, y, fused=False)
    return Change((node,), (made(name, [source], y),)) if name else None


def _single(span: Range, x: Tensor, y: Tensor) -> Node | None:
    """One operator that clips x to the range; None if there is none."""
    if name := named(span, y, fused=False):
        return made(name, [x], y)
    low, high = whole(y)
    if span[0] > low and span[1] < high:
        return None
    op, bound = ("MAXIMUM", span[0]) if span[0] > low else ("MINIMUM", span[1])
    return made(op, [x, constant(np.array(bound, y.dtype), f"{y.name}/bound", y.quant)], y)
