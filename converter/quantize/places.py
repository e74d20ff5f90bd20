"""Which nodes compute places: numbers that become indices, where a step of an integer would be many elements."""

from __future__ import annotations

from twinfer.converter.table import row_of
from twinfer.runtime.graph import Graph, Node


def places(graph: Graph) -> set[Node]:
    """Float nodes that lead to a CAST to integers, back to the layers that give them their values, and what is computed
    of their results alone, such as the distance from a place to the pixel before it. Layers themselves are none."""
    found: set[Node] = set()
    wanted = {node.input(0) for node in graph.nodes if _counts(node)}
    for node in reversed(graph.nodes):
        if _plain(node) and not wanted.isdisjoint(node.outputs):
            found.add(node)
            wanted.update(t for t in node.inputs if t is not None and t.type == "FLOAT32")
    made = {t for node in found for t in node.outputs}
    for node in graph.nodes:
        floats = [t for t in node.inputs if t is not None and t.data is None and t.type == "FLOAT32"]
        if _plain(node) and floats and made.issuperset(floats):
            found.add(node)
            made.update(node.outputs)
    return found


def _counts(node: Node) -> bool:
    return node.op == "CAST" and node.input(0).type == "FLOAT32" and node.output.type in ("INT32", "INT64")


def _plain(node: Node) -> bool:
    """Whether elements of floats are computed from single ones, or moved."""
    row = row_of(node)
    return (row.elementwise or row.moves is not None) and all(t.type == "FLOAT32" for t in node.outputs)
