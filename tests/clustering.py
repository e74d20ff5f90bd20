"""Models whose int8 weights have few values: clustered by plain k-means, tensor by tensor; for tests of coding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinfer.runtime.graph import Graph, Tensor
from twinfer.runtime.op import Array

#: Operators whose input 1 are weights.
LAYERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def clustered(values: Array, count: int, sparsity: float = 0.0) -> Array:
    """int8 values, the smallest share of them zero, the others each the nearest of ``count`` means."""
    flat = values.reshape(-1).astype(np.float64)
    least = np.quantile(np.abs(flat), sparsity) if sparsity else -1.0
    kept = np.abs(flat) > least
    means = np.quantile(flat[kept], np.linspace(0, 1, count)) if kept.any() else np.zeros(1)
    for _ in range(10):
        nearest = np.abs(flat[:, None] - means).argmin(axis=1)
        means = np.array(
            [flat[kept & (nearest == i)].mean() if (kept & (nearest == i)).any() else m for i, m in enumerate(means)]
        )
    found = means.round()[np.abs(flat[:, None] - means).argmin(axis=1)]
    return np.where(kept, found, 0).astype(values.dtype).reshape(values.shape)


def with_clusters(graph: Graph, count: int = 16, sparsity: float = 0.0) -> Graph:
    """The graph with the int8 weights of its layers clustered."""
    made: dict[Tensor, Tensor] = {}
    for node in graph.nodes:
        w = node.optional(1) if node.op in LAYERS else None
        if w is not None and w.type == "INT8" and w.data is not None:
            made.setdefault(w, replace(w, data=clustered(w.data, count, sparsity)))
    nodes = tuple(replace(n, inputs=tuple(t if t is None else made.get(t, t) for t in n.inputs)) for n in graph.nodes)
    return replace(graph, nodes=nodes, tensors=tuple(made.get(t, t) for t in graph.tensors))
