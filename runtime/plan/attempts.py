"""What the variants of a node's operator say to it, best first."""

from __future__ import annotations

from collections.abc import Iterator

from twinfer.runtime.graph import Node
from twinfer.runtime.program import Call
from twinfer.runtime.registry import operator, variants
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Declined, Lower, Variant


def attempts(node: Node, target: Target) -> Iterator[tuple[Variant, Call | Declined]]:
    """Every variant that serves the node, with its call or the reason why there is none. ``infer`` must have agreed."""
    asked = set[Lower]()
    for variant in variants(operator(node).name, target):
        if variant.lower in asked or not variant.serves(node):
            continue
        asked.add(variant.lower)
        try:
            yield variant, variant.lower(node, target)
        except Declined as reason:
            yield variant, reason
