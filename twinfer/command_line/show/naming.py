"""What operators are called in tables: as in the file, and those that planning added so that one sees it."""

from __future__ import annotations

from collections.abc import Iterable

from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.ops.core.unsigned import is_added


def number(node: Node) -> str:
    """The number of an operator in its file; none if planning added it."""
    return "" if is_added(node) else str(node.index)


def title(node: Node) -> str:
    """An operator's name, + before one that planning added."""
    return f"+ {node.op}" if is_added(node) else node.op


def variables(nodes: Iterable[Node]) -> dict[Tensor, str]:
    """The names of the variables that tensors of these nodes are handles of."""
    handles = (node for node in nodes if node.op == "VAR_HANDLE" and node.outputs)
    return {node.output: str(node.options.get("shared_name") or node.options.get("container")) for node in handles}
