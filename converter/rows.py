"""The table of operators: one row each, from the families in ``converter/operators``."""

from __future__ import annotations

from types import ModuleType

from twinfer.converter import operators
from twinfer.converter.discovery import modules_of
from twinfer.converter.facts import UNKNOWN, Parameters, Row
from twinfer.runtime.graph import Node


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
