"""Operators whose results nobody needs."""

from __future__ import annotations

from twinfer.converter.passes._rewrite import needed_nodes, rebuild
from twinfer.runtime.graph import Graph

#: Where the pipeline runs the pass (``passes/__init__.py``).
PLACES = (160,)


def dead_code(graph: Graph) -> Graph:
    """Leaves out operators, and then constants, that no output, signature or state depends on."""
    nodes = needed_nodes(graph, graph.nodes)
    return graph if len(nodes) == len(graph.nodes) else rebuild(graph, nodes)
