"""Faults of the oracles that are known: a difference that one of these explains is none of ours.

The operators' cases say the same in their ``why``, where they have ``oracle="none"``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twinfer.runtime.graph import Graph, Node, walk
from twinfer.runtime.ops.signal.stacker import UNWRITTEN


@dataclass(frozen=True)
class Fault:
    """What a peer does wrong: for which operators (separated by spaces), types of input 0 and nodes, and why."""

    peer: str
    ops: str
    types: str
    why: str
    holds: Callable[[Node], bool] = lambda node: True

    def explains(self, peer: str, node: Node) -> bool:
        """Whether the node is one that this peer gets wrong."""
        if peer != self.peer or node.op not in self.ops.split():
            return False
        first = next((t for t in node.inputs if t is not None), None)
        suits = not self.types or (first is not None and first.type in self.types.split())
        return suits and self.holds(node)


FAULTS: tuple[Fault, ...] = (Fault("tflm", "CUSTOM:SignalStacker CUSTOM:SignalFramer", "", UNWRITTEN),)


def excused(peer: str, graph: Graph) -> str:
    """Why a peer may differ from us on this model; "" if it may not."""
    nodes = (node for each in walk(graph) for node in each.nodes)
    return next((fault.why for node in nodes for fault in FAULTS if fault.explains(peer, node)), "")
