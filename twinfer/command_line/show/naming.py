"""What operators are called in tables: as in the file, and those that planning added so that one sees it."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.unsigned import is_added


def number(node: Node) -> str:
    """The number of an operator in its file; none if planning added it."""
    return "" if is_added(node) else str(node.index)


def title(node: Node) -> str:
    """An operator's name, + before one that planning added."""
    return f"+ {node.op}" if is_added(node) else node.op
