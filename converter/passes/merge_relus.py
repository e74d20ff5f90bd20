"""Several clips in a row become one; clips that change nothing go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from twinfer.converter.passes._clip import Range, both, bounds, clip_of, named, whole
from twinfer.converter.passes._rewrite import Change, View, bypass, constant, new_node, rewrite, touches_state
from twinfer.converter.table import row_of
from twinfer.runtime.graph import Graph, Node, Tensor

#: Where the pipeline runs the pass (``passes/__init__.py``).
PLACES = (50, 100)

#: Operators for clips that TFLM has, too.
COMMON = ("RELU", "RELU6")


def merge_relus(graph: Graph) -> Graph:
    """RELU, RELU6, RELU_N1_TO_1, RELU_0_TO_1, and MINIMUM and MAXIMUM with one number. A clip goes if all values lie
    inside its range already, by the operator before it or by int8's limits. Several in a row become one RELU.

    In int8 only where all tensors have the same quantisation.
    """
    return rewrite(graph, _merge)


def _merge(view: View, node: Node) -> Change | None:
    clip = clip_of(node)
    if clip is None or touches_state(node):
        return None
    source, span = clip
    known = bounds(view, source)
    if span[0] <= known[0] and known[1] <= span[1]:
        return bypass(view, node, source, node.output)
    return _join(view, node, source, span)


def _join(view: View, node: Node, source: Tensor, span: Range) -> Change | None:
    """The node and all clips before it, as fewer operators or as one RELU."""
    chain = [node]
    while (before := view.feeds(source)) is not None and (inner := clip_of(before)) is not None:
        chain, source, span = [before, *chain], inner[0], both(inner[1], span)
    ops = _write(span, source, node.output, [n.op for n in chain])
    better = len(ops) < len(chain) or (len(chain) == 1 and row_of(ops[0]).clamps and not row_of(node).clamps)
    return Change(tuple(chain), ops) if better else None


def _write(span: Range, x: Tensor, y: Tensor, known: Sequence[str]) -> tuple[Node, ...]:
    """Operators that clip x to the range: operators that every runtime has, or that the graph has already."""
    if name := named(span, y, (*COMMON, *known)):
        return (new_node(name, [x], y),)
    low, high = whole(y)
    if span[0] == low:
        return (_bound("MINIMUM", x, span[1], y),)
    if span[1] == high:
        return (_bound("MAXIMUM", x, span[0], y),)
    middle = replace(y, name=f"{y.name}/least", shape_signature=())
    first = _write((span[0], high), x, middle, known)
    return (*first, _bound("MINIMUM", middle, span[1], y))


def _bound(op: str, x: Tensor, bound: float, y: Tensor) -> Node:
    return new_node(op, [x, constant(np.array(bound, y.dtype), f"{y.name}/bound", y.quant)], y)
