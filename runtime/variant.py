"""A variant: one way to lower an operator, for machines that have the features which its kernel needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from twinfer.runtime.graph import Node
from twinfer.runtime.program import Call
from twinfer.runtime.target import FEATURES, Target

T = TypeVar("T")

#: What makes a node the call of a kernel.
Lower = Callable[[Node, Target], Call]

#: Sizes of the pieces that a kernel works on, with the call of each; some may be the usual one.
Blocks = Callable[[Node, Target], Iterator[tuple[int, Call]]]


class Declined(Exception):
    """A variant does not suit a node; the text says why. ``runtime/plan/lower.py`` then asks the next one."""


@dataclass(frozen=True)
class Variant:
    """One way to lower operators on targets that have all of ``needs``.

    A module beside the operator's own ends with ``VARIANT = Variant(...)`` or ``VARIANTS = (...)``; the registry finds
    it. ``ops`` are the operators that it is written for, ``also`` those that it serves in some forms, behind their own
    variants. ``types`` are the types of input 0 that it serves, none for any. ``lower(node, target)`` is called after
    ``infer`` has agreed with the outputs' shapes; it raises ``Declined`` where its kernel does not suit the node.
    ``blocks``, for nodes that ``lower`` serves, has other sizes of the pieces that its kernel works on, for ``tune``.
    ``larger``, unless 0: its constants or its scratch memory take more bytes than those of others; 2 is faster than 1.
    Where flash is dear, it is taken where it is worth that (``runtime/plan/larger.py``).
    ``few``: it is asked before others that need the same feature, unless weights are coded or apart from the code: it
    suits few nodes, or takes more memory where weights are decoded.
    """

    name: str
    ops: tuple[str, ...]
    needs: frozenset[str]
    lower: Lower
    types: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    blocks: Blocks | None = None
    larger: int = 0
    few: bool = False

    def __post_init__(self) -> None:
        if not self.needs or not self.needs.issubset(FEATURES):
            raise RuntimeError(f"the variant {self.name} must need some of {', '.join(FEATURES)}")

    def serves(self, node: Node) -> bool:
        """Whether a target that has what it needs should ask it."""
        return not self.types or node.input(0).type in self.types

    def rank(self, op: str) -> tuple[int, int, int, int]:
        """Lower is better: the best feature that it needs, whether it is written for ``op``, is larger, suits few."""
        return min(map([*FEATURES].index, self.needs)), int(op in self.also), -self.larger, int(not self.few)


def accept(condition: bool, reason: str) -> None:
    """Raise ``Declined`` with the reason unless ``condition`` holds."""
    if not condition:
        raise Declined(reason)


def present(value: T | None, reason: str) -> T:
    """The value; ``Declined`` with the reason if there is none."""
    if value is None:
        raise Declined(reason)
    return value
