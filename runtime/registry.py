"""Finds operators and their variants: a module in a family of ``runtime/ops`` ends with ``OP = Op(...)`` or
``VARIANT = Variant(...)``, or with several, ``OPS = (...)`` or ``VARIANTS = (...)``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import ModuleType
from typing import Any

from twinfer.runtime import ops
from twinfer.runtime.control import CONTROL
from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import Node
from twinfer.runtime.op import Op
from twinfer.runtime.variant import Variant

#: Packages of ``runtime/ops`` that hold what operators share.
SHARED = ("core", "isa")


@cache
def operators() -> Mapping[str, Op]:
    """All operators by TFLite name. Modules whose name starts with an underscore hold what a family shares."""
    return {op.name: op for module in _modules() for op in _rows(module, "OP")}


@cache
def variants(name: str) -> tuple[Variant, ...]:
    """The variants of an operator, best first; empty if there is only plain C."""
    rows = [row for module in _modules() for row in _rows(module, "VARIANT") if name in (*row.ops, *row.also)]
    return tuple(sorted(rows, key=lambda row: row.rank(name)))


def _rows(module: ModuleType, name: str) -> tuple[Any, ...]:
    """What a module defines as ``name``, or as its plural if there are several."""
    return (getattr(module, name),) if hasattr(module, name) else getattr(module, f"{name}S", ())


@cache
def _modules() -> tuple[ModuleType, ...]:
    """All modules of the families."""
    return tuple(map(importlib.import_module, _names()))


def _names() -> Iterator[str]:
    """The full names of all modules that define operators or variants."""
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


def keeps_state(node: Node) -> bool:
    """Whether the node's operator keeps a state of its own from run to run."""
    op = operators().get(node.op)
    return op is not None and op.keeps_state


def missing(nodes: Iterable[Node]) -> list[Node]:
    """The nodes whose operator twinfer does not know."""
    return [node for node in nodes if node.op not in operators() and node.op not in CONTROL]
