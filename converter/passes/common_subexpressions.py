"""Operators that compute the same become one."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

from twinfer.converter.passes._rewrite import View, rebuild, touches_state, with_tensors
from twinfer.runtime.graph import Graph, Node, Quant, Tensor
from twinfer.runtime.registry import operators

#: Where the pipeline runs the pass (``passes/__init__.py``).
PLACES = (20, 150)


def common_subexpressions(graph: Graph) -> Graph:
    """The first of several operators with the same inputs, options and kind of outputs serves all readers. Constants
    of equal value count as the same. Operators that twinfer does not know (random numbers, custom ones) and state are
    left alone."""
    view, known, instead, kept = View(graph), dict[Hashable, Node](), dict[Tensor, Tensor](), list[Node]()
    for node in graph.nodes:
        now = with_tensors(node, instead)
        comparable = node.op in operators() and not touches_state(node) and not node.extra
        first = known.setdefault(_key(now), now) if comparable else now
        if first is now or any(t in view.public for t in now.outputs):  # what the outside knows must stay
            kept.append(now)
        else:
            instead.update(zip(now.outputs, first.outputs, strict=True))
    return graph if len(kept) == len(graph.nodes) else rebuild(graph, kept)


def _key(node: Node) -> Hashable:
    inputs = tuple(None if t is None else t if t.data is None or t.extra else _value(t) for t in node.inputs)
    outputs = tuple((t.type, t.shape, t.shape_signature, _quant(t.quant)) for t in node.outputs)
    return node.op, node.version, inputs, outputs, repr(sorted(node.options.items()))


def _value(tensor: Tensor) -> Hashable:
    """A key that equal constants share."""
    data = b"" if tensor.data is None else tensor.data.tobytes()
    return tensor.type, tensor.shape, _quant(tensor.quant), hashlib.sha256(data).digest()


def _quant(quant: Quant | None) -> Hashable:
    return None if quant is None else (quant.scale.tobytes(), quant.zero_point.tobytes(), quant.axis)
