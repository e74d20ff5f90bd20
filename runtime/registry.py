"""Finds the operators: every module in ``runtime/ops`` ends with ``OP = Op(...)`` or ``OPS = (Op(...), ...)``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from twinfer.runtime import ops
from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import Graph, Node
from twinfer.runtime.op import Op


@cache
def operators() -> Mapping[str, Op]:
    """All operators by TFLite name. Modules whose name starts with an underscore hold shared helpers."""
    found: dict[str, Op] = {}
    for module in sorted(pkgutil.iter_modules(ops.__path__), key=lambda m: m.name):
        if module.name.startswith("_"):
            continue
        loaded = importlib.import_module(f"{ops.__name__}.{module.name}")
        for op in getattr(loaded, "OPS", None) or (loaded.OP,):
            found[op.name] = op
    return found


def operator(node: Node) -> Op:
    """The operator of a node; UnsupportedOperatorError if twinfer has none of that name."""
    op = operators().get(node.op)
    if op is None:
        tensor = next((t for t in (*node.inputs, *node.outputs) if t is not None), None)
        hint = (
            "custom operators have no portable meaning: replace it in the converter"
            if node.op.startswith("CUSTOM:")
            else "rewrite the model without it, or add kernels_c/<op>.h and runtime/ops/<op>.py (see ARCHITECTURE.md)"
        )
        raise UnsupportedOperatorError(f"{node}: twinfer has no kernel for {node.op} ({tensor}); {hint}")
    return op


def missing(graph: Graph) -> list[Node]:
    """The nodes whose operator twinfer does not know."""
    return [node for node in graph.nodes if node.op not in operators()]
