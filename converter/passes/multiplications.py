"""NEG, SQUARE and POW by 2 as MUL, which has integer kernels everywhere."""

from __future__ import annotations

import numpy as np

from twinfer.converter.passes._rewrite import Change, View, constant, new_node, rewrite, scalar
from twinfer.runtime.graph import Graph, Node

#: Where the pipeline runs the pass (``passes/__init__.py``).
PLACES = (2,)


def multiplications(graph: Graph) -> Graph:
    """-x as x * -1, x² as x * x: the same floats, but int8 kernels in every runtime.

    LiteRT and TFLM have none for SQUARE and POW, and LiteRT's NEG negates the stored byte.
    """
    return rewrite(graph, _product)


def _product(view: View, node: Node) -> Change | None:
    if node.op not in ("NEG", "SQUARE", "POW") or node.output.type != "FLOAT32":
        return None
    x, y = node.input(0), node.output
    if x.shape != y.shape or (node.op == "POW" and scalar(node.optional(1)) != 2):
        return None
    other = constant(np.array(-1, np.float32), f"{y.name}_sign") if node.op == "NEG" else x
    return Change((node,), (new_node("MUL", (x, other), y),))
