"""The logarithm of 1 + exp(x) by values that integers can hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinfer.converter.passes._rewrite import Change, View, constant, new_node, rewrite, scalar
from twinfer.runtime.graph import Graph, Node, Tensor

#: Where the pipeline runs the pass (``passes/__init__.py``).
PLACES = (3,)


def softplus(graph: Graph) -> Graph:
    """log(1 + exp(x)) as max(x, 0) + log(1 + exp(-|x|)): exp(x) may be so large that all else rounds to 0."""
    return rewrite(graph, _bounded)


def _bounded(view: View, node: Node) -> Change | None:
    more = view.feeds(node.input(0), "ADD") if node.op == "LOG" and node.output.type == "FLOAT32" else None
    if more is None or more.options["fused_activation_function"] != "NONE":
        return None
    for i in (0, 1):
        e = view.feeds(more.input(i), "EXP")
        if e is not None and scalar(more.input(1 - i)) == 1 and e.output.shape == node.output.shape:
            return _written(more.input(1 - i), e.input(0), e, more, node) if not _small(view, e) else None
    return None


def _small(view: View, e: Node) -> bool:
    """Whether exp takes nothing above 0 already."""
    product = view.producer(e.input(0), "MUL")
    return product is not None and any(view.producer(t, "ABS") for t in product.inputs)


def _written(one: Tensor, x: Tensor, e: Node, more: Node, log: Node) -> Change:
    y = log.output
    size, less, small, above, rest = (
        replace(y, name=f"{y.name}/{name}", shape_signature=()) for name in ("abs", "less", "exp", "relu", "log")
    )
    sign = constant(np.array(-1, np.float32), f"{y.name}/sign")
    nodes = (
        new_node("ABS", [x], size),
        new_node("MUL", [size, sign], less),
        new_node("EXP", [less], small),
        new_node("ADD", [small, one], more.output),
        new_node("LOG", [more.output], rest),
        new_node("RELU", [x], above),
        new_node("ADD", [above, rest], y),
    )
    return Change((e, more, log), nodes)
