"""Operators over constants are computed ahead of time."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import numpy as np

from twinfer.converter.passes._rewrite import (
    Change,
    View,
    constant,
    rebuild,
    rewrite,
    swap_tensors,
    touches_state,
    works,
)
from twinfer.runtime.errors import TwinferError
from twinfer.runtime.graph import DTYPES, Array, Graph, Node, Tensor
from twinfer.runtime.registry import operator
from twinfer.runtime.shapes import SHAPE_OPS, guarded, is_open

#: Where the pipeline runs the pass (``passes/__init__.py``).
PLACES = (10,)

#: Bytes that a folded result may always have. A larger one must not take more than the constants that it replaces.
SMALL = 1024

#: In ``extra`` of a node that gives the first state of a loop (``emit/cells.py``): it waits for ``loops.py``.
BEGINS = "begins"


def constant_folding(graph: Graph) -> Graph:
    """Operators over constants become their result, computed by the operator's reference; so does SHAPE of what has a
    fixed shape.

    Left as they are: results that would make the model larger (a BROADCAST_TO, float16 weights behind DEQUANTIZE) and
    outputs of the graph, which a run must write.
    """
    return rewrite(graph, _fold)


def beginnings(graph: Graph) -> Graph:
    """The graph without marks of BEGINS, and with constants in the place of such nodes over constants: their loops are
    made, or none are wanted."""
    marked = [node for node in graph.nodes if BEGINS in node.extra]
    if not marked:
        return graph
    plain = {node: replace(node, extra=MappingProxyType({})) for node in marked}
    graph = rebuild(graph, [plain.get(node, node) for node in graph.nodes])
    known = [node for node in plain.values() if node.input(0).data is not None]
    swap = {t: constant(v, t.name, t.quant) for n in known for t, v in zip(n.outputs, results(n) or [], strict=False)}
    return swap_tensors(rebuild(graph, [node for node in graph.nodes if node.output not in swap]), swap)


def _fold(view: View, node: Node) -> Change | None:
    if touches_state(node) or BEGINS in node.extra or not node.outputs or any(t in view.public for t in node.outputs):
        return None
    if not all(t is None or _known(node, t) for t in node.inputs) or not any(node.inputs) or not _fits(view, node):
        return None
    values = results(node)
    if values is None:
        return None
    named = zip(node.outputs, values, strict=True)
    return Change((node,), (), {t: constant(value, t.name, t.quant) for t, value in named})


def _known(node: Node, tensor: Tensor) -> bool:
    """Whether the node's input is known: its value, or for SHAPE and RANK its shape."""
    if node.op in SHAPE_OPS:
        return not is_open(tensor)
    return tensor.data is not None and tensor.type in DTYPES and "sparsity" not in tensor.extra


def _fits(view: View, node: Node) -> bool:
    freed = sum(t.nbytes for t in node.inputs if t is not None and view.only_here(t))
    return all(t.type in DTYPES for t in node.outputs) and sum(t.nbytes for t in node.outputs) <= max(SMALL, freed)


def results(node: Node) -> list[Array] | None:
    """The outputs of a node over constants; None where twinfer lacks the operator or the node is damaged."""
    if not works(node):
        return None
    inputs = [None if t is None else np.zeros(t.shape, np.uint8) if t.data is None else t.data for t in node.inputs]
    try:
        with np.errstate(all="ignore"):
            values = guarded(node, lambda: operator(node).reference(node, inputs))
    except TwinferError:
        return None
    return [np.asarray(value, t.dtype).reshape(t.shape) for value, t in zip(values, node.outputs, strict=True)]
