"""Versions of operators: a runtime refuses a node whose version is newer than what it knows."""

from __future__ import annotations

from dataclasses import replace

from twinfer.converter.rows import row_of
from twinfer.runtime.graph import Graph, Node


def version_of(node: Node) -> int:
    """The least version of the operator that allows this node; 1 for an operator without a row."""
    row = row_of(node)
    values = node.optional(row.first)
    by_type = row.versions.get(values.type, 1) if values is not None else 1
    return max((by_type, *(version for version, needs in row.needs if needs(node))))


def with_versions(graph: Graph) -> Graph:
    """The graph with every node's version raised to what it needs; higher versions stay."""
    nodes = tuple(
        node if node.version >= (least := version_of(node)) else replace(node, version=least) for node in graph.nodes
    )
    return replace(graph, nodes=nodes, subgraphs=tuple(map(with_versions, graph.subgraphs)))
