"""The table of operators, a row each, from the families in ``converter/operators``; and versions that rows ask for.

A runtime refuses a node whose version is newer than what it knows."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

from twinfer.converter import operators
from twinfer.converter.facts import UNKNOWN, Parameters, Row
from twinfer.runtime.graph import Graph, Node, walk


def modules_of(package: ModuleType) -> Iterator[ModuleType]:
    """All modules whose names do not begin with an underscore, in alphabetical order."""
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        if not module.name.startswith("_"):
            yield importlib.import_module(f"{package.__name__}.{module.name}")


def importers_in(package: ModuleType) -> dict[str, Any]:
    """The importers of all modules of the package, each of which ends with ``IMPORTERS``, name to function."""
    return {name: importer for module in modules_of(package) for name, importer in module.IMPORTERS.items()}


#: TFLite's operator names -> rows, from all modules of ``operators``: each ends with ``ROWS``.
ROWS: dict[str, Row] = {op: row for family in modules_of(operators) for op, row in family.ROWS.items()}


def row_of(node: Node) -> Row:
    """The row of the node's operator; ``UNKNOWN`` if there is none."""
    return ROWS.get(node.op, UNKNOWN)


def parameters_of(node: Node) -> Parameters | None:
    """Where the node has weights and a bias; None if its operator has none."""
    return row_of(node).parameters


def layers() -> dict[str, Parameters]:
    return {op: row.parameters for op, row in ROWS.items() if row.parameters is not None}


def version_of(node: Node) -> int:
    """The least version of the operator that allows this node; 1 for an operator without a row."""
    row = row_of(node)
    values = node.optional(row.first)
    by_type = row.versions.get(values.type, 1) if values is not None else 1
    return max((by_type, *(version for version, needs in row.needs if needs(node))))


def with_versions(graph: Graph, source: Graph | None = None) -> Graph:
    """The graph with every node's version raised to what it needs. Higher versions stay, and so do lower ones of
    ``source`` for its operators: runtimes that know no newer one run it so."""
    stated = (
        {}
        if source is None
        else {(node.op, version_of(node)): node.version for each in walk(source) for node in each.nodes}
    )
    nodes = []
    for node in graph.nodes:
        needed = version_of(node)
        least = min(needed, stated.get((node.op, needed), needed))
        nodes.append(node if node.version >= least else replace(node, version=least))
    subgraphs = tuple(with_versions(each, source) for each in graph.subgraphs)
    return replace(graph, nodes=tuple(nodes), subgraphs=subgraphs)
