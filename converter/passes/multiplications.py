"""NEG, SQUARE and POW by 2 as MUL, which has integer kernels everywhere."""

from __future__ import annotations

import numpy as np

from twinfer.converter.passes._rewrite import Change, View, constant, new_node, rewrite, scalar
from twinfer.runtime.graph import Graph, Node, Tensor

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
    x, other = node.input(0), _factor(node)
    if other is None or x.shape != node.output.shape:
        return None
    return Change((node,), (new_node("MUL", (x, other), node.output),))


def _factor(node: Node) -> Tensor | None:
    if node.op == "NEG":
        return constant(np.array(-1, np.float32), f"{node.output.name}_sign")
    return node.input(0) if node.op == "SQUARE" or scalar(node.optional(1)) == 2 else None
