"""ADD and SUB of int8 as one plane over both operands: kernels_c/elementwise/add.h, ``tw_add_plane_s8``."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.activation import output_range
from twinfer.runtime.ops.core.broadcast import broadcast_call, commuted
from twinfer.runtime.ops.elementwise._plane import plane_of
from twinfer.runtime.ops.elementwise.add import sign_of
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def lower(node: Node, target: Target) -> Call:
    a, b, y = node.input(0), node.input(1), node.output
    accept(output_range(node) == {"low": -128, "high": 127}, "it has a fused activation")
    if node.op == "ADD":
        a, b = commuted(a, b)
    return broadcast_call("tw_add_plane_s8", (a, b), y, plane_of(a, b, y, sign_of(node)), target)


VARIANT = Variant("words", ("ADD", "SUB"), frozenset({"words"}), lower, ("INT8",))
