"""The table of operators, a row each, from the families in ``converter/operators``; and versions that rows ask for.

A runtime refuses a node whose version is newer than what it knows.
"""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

from twinfer.converter import operators
from twinfer.converter.discovery import modules_of
from twinfer.converter.facts import UNKNOWN, Parameters, Row
from twinfer.runtime.graph import Graph, Node


def rows_in(package: ModuleType) -> dict[str, Row]:
    """TFLite's operator names -> rows, from all modules of the package: each ends with ``ROWS``."""
    return {op: row for family in modules_of(package) for op, row in family.ROWS.items()}


ROWS = rows_in(operators)


def row_of(node: Node) -> Row:
    """The row of the node's operator; ``UNKNOWN`` if there is none."""
    return ROWS.get(node.op, UNKNOWN)


def parameters_of(node: Node) -> Parameters | None:
    """Where the node has weights and a bias; None if its operator has none."""
    return row_of(node).parameters


def layers() -> dict[str, Parameters]:
    """The operators with constant weights and a bias."""
    return {op: row.parameters for op, row in ROWS.items() if row.parameters is not None}


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
