"""Faults of the oracles that are known: a difference that one of these explains is none of ours.

The operators' cases say the same: they take another oracle there, or none and a ``why``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from twinfer.runtime.graph import Graph, Node, walk
from twinfer.runtime.ops.core import total
from twinfer.runtime.ops.elementwise import div
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


def _coarse(node: Node) -> bool:
    """Whether an operand has a scale from 1 on."""
    return any(t is not None and t.quant is not None and bool((t.quant.scale >= 1).any()) for t in node.inputs)


def _wide(node: Node) -> bool:
    """Whether an argument is of int64."""
    return any(t is not None and t.type == "INT64" for t in node.inputs[1:])


def _other_type(node: Node) -> bool:
    return bool(node.options["output_type"] != node.output.type)


def _requantises(node: Node) -> bool:
    return node.input(0).quant != node.output.quant


def _fed(place: int) -> Callable[[Node], bool]:
    """Whether an argument comes at run time."""
    return lambda node: node.input(place).data is None


COMPARING = "LESS LESS_EQUAL GREATER GREATER_EQUAL EQUAL NOT_EQUAL"

FAULTS: tuple[Fault, ...] = (
    Fault("tflm", "CUSTOM:SignalStacker CUSTOM:SignalFramer", "", UNWRITTEN),
    Fault("tflm", "ADD_N CUMSUM", "INT8", total.FAULT, lambda node: node.input(0).zero != 0),
    Fault("tflm", "DIV", "INT8", div.FAULT),
    Fault("tflm", "ADD_N", "INT8", total.OVERFLOW, lambda node: len(node.inputs) > 16),
    Fault("tflm", "ADD SUB", "INT32", "TFLM ignores the activation of int32", _activated),
    Fault("tflm", "TANH LOGISTIC", "INT8", "TFLM ignores the output's quantisation", _other_output),
    Fault("tflm", COMPARING, "INT8", "TFLM takes no scale from 1 on", _coarse),
    Fault("litert-ref", COMPARING, "INT8 UINT8 INT16", "LiteRT takes no scale from 1 on", _coarse),
    Fault("tflm", "RELU6", "INT8 INT16", "TFLM does not requantise", _requantises),
    Fault("tflm", "TRANSPOSE", "", "TFLM reads a permutation of int64 as int32", _wide),
    Fault("litert-ref", "BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND", "", "LiteRT reads int64 arguments as int32", _wide),
    Fault("litert-ref", "SVDF", "INT8", "LiteRT reads a state of int8 as int16", lambda n: n.input(4).type == "INT8"),
    Fault(
        "litert-ref",
        "ARG_MAX ARG_MIN",
        "",
        "the option contradicts the output's type, which counts for us",
        _other_type,
    ),
    Fault("litert-ref", "ATAN2", "", "LiteRT does not broadcast here and gives the shape of one input", _broadcasts),
    Fault("litert-ref", "TOPK_V2", "", "k contradicts the shape in the file, which counts for us", _fed(1)),
)

#: Differences that nobody has explained yet: each has to become a fault above, or to be mended and go.
OPEN: tuple[Fault, ...] = (
    Fault("litert-ref", "FULLY_CONNECTED", "INT8", "open: LiteRT rounds in another way, one step at most was seen"),
    Fault("litert-ref", "FULLY_CONNECTED", "INT16", "open: weights of uint8", lambda n: n.input(1).type == "UINT8"),
    Fault("litert-ref", "CUSTOM:TFLite_Detection_PostProcess", "", "open: boxes behind the last detection"),
)


def excused(peer: str, graph: Graph) -> str:
    """Why a peer may differ from us on this model; "" if it may not."""
    nodes = (node for each in walk(graph) for node in each.nodes)
    return next((fault.why for node in nodes for fault in (*FAULTS, *OPEN) if fault.explains(peer, node)), "")
