"""Fused products: a pass ``Graph -> Graph`` of planning for ``Options.floats`` "fused".

It marks the layers of float32 whose kernels can add a product to its sum with one rounding. They do so in one order, by
rows, columns and channels of the window, and add the bias last, so that every machine gives the same bits.
"""

from __future__ import annotations

from dataclasses import replace

from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Node
from twinfer.runtime.ops.core.madd import FUSED
from twinfer.runtime.target import Target

#: Operators with fused kernels; those of all others stay exact.
OPERATORS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


def fuse_products(graph: Graph) -> Graph:
    """The graph with marks. Weights of other types than float32 have no float products."""
    return replace(graph, nodes=tuple(map(_marked, graph.nodes)))


def check_fuses(target: Target) -> None:
    """InvalidArgumentError for a machine that would take a function for each product."""
    if not target.fuses:
        raise InvalidArgumentError(
            f"floats cannot be fused on {target.name}: it is not known to multiply and add floats in one instruction. "
            "Leave --float exact, or name a target that does, such as cortex-m4, cortex-m55, riscv32imafc or host"
        )


def _marked(node: Node) -> Node:
    floats = node.op in OPERATORS and all(t is not None and t.type == "FLOAT32" for t in node.inputs[:2])
    return replace(node, options={**node.options, FUSED: True}) if floats else node
