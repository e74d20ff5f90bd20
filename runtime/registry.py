"""Finds the operators: a module in a family of ``runtime/ops`` ends with ``OP = Op(...)`` or ``OPS = (...)``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache

from twinfer.runtime import ops
from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import Graph, Node
from twinfer.runtime.op import Op

#: Packages of ``runtime/ops`` that hold what operators share.
SHARED = ("core", "isa")


@cache
def operators() -> Mapping[str, Op]:
    """All operators by TFLite name. Modules whose name starts with an underscore hold what a family shares."""
    known: dict[str, Op] = {}
    for name in _modules():
        module = importlib.import_module(name)
        known.update((op.name, op) for op in getattr(module, "OPS", None) or (module.OP,))
    return known


def _modules() -> Iterator[str]:
    """The full names of all modules that define operators."""
    for family in pkgutil.iter_modules(ops.__path__):
        if family.name in SHARED:
            continue
        package = importlib.import_module(f"{ops.__name__}.{family.name}")
        for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
            if not module.name.startswith("_"):
                yield f"{package.__name__}.{module.name}"


def operator(node: Node) -> Op:
    """The operator of a node; UnsupportedOperatorError if twinfer has none of that name."""
    op = operators().get(node.op)
    if op is None:
        tensor = next((t for t in (*node.inputs, *node.outputs) if t is not None), None)
        hint = (
            "custom operators have no portable meaning: replace it in the converter"
            if node.op.startswith("CUSTOM:")
            else "rewrite the model without it, or add a kernel and an operator module (ARCHITECTURE.md says how)"
        )
        raise UnsupportedOperatorError(f"{node}: twinfer has no kernel for {node.op} ({tensor}); {hint}")
    return op


def missing(graph: Graph) -> list[Node]:
    """The nodes whose operator twinfer does not know."""
    return [node for node in graph.nodes if node.op not in operators()]
