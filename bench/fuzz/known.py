"""Faults of the oracles that are known: a difference that one of these explains is none of ours.

The operators' cases say the same: they take another oracle there, or none and a ``why``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twinfer.runtime.graph import Graph, Node, walk
from twinfer.runtime.ops.signal.stacker import UNWRITTEN


@dataclass(frozen=True)
class Fault:
    """What a peer does wrong: for which operators and types of input 0 (separated by spaces) and nodes, and why."""

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


def _activated(node: Node) -> bool:
    return bool(node.options.get("fused_activation_function", "NONE") != "NONE")


def _other_output(node: Node) -> bool:
    """Whether the output has not the one quantisation that TFLM computes with."""
    usual = {"TANH": (1 / 128, 0), "LOGISTIC": (1 / 256, -128)}[node.op]
    return (node.output.scale, node.output.zero) != usual


def _broadcasts(node: Node) -> bool:
    return node.input(0).shape != node.input(1).shape


def _fed(place: int) -> Callable[[Node], bool]:
    """Whether an argument comes at run time."""
    return lambda node: node.input(place).data is None


FAULTS: tuple[Fault, ...] = (
    Fault("tflm", "CUSTOM:SignalStacker CUSTOM:SignalFramer", "", UNWRITTEN),
    Fault("tflm", "ADD SUB", "INT32", "TFLM ignores the activation of int32", _activated),
    Fault("tflm", "TANH LOGISTIC", "INT8", "TFLM ignores the output's quantisation", _other_output),
    Fault("litert-ref", "ATAN2", "", "LiteRT does not broadcast here and gives the shape of one input", _broadcasts),
    Fault("litert-ref", "TOPK_V2", "", "k contradicts the shape in the file, which counts for us", _fed(1)),
)


def excused(peer: str, graph: Graph) -> str:
    """Why a peer may differ from us on this model; "" if it may not."""
    nodes = (node for each in walk(graph) for node in each.nodes)
    return next((fault.why for node in nodes for fault in FAULTS if fault.explains(peer, node)), "")
