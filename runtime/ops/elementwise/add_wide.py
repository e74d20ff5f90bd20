"""ADD and SUB of int8 as one plane over both operands, on computers: kernels_c/elementwise/add_wide.h."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.activation import output_range
from twinfer.runtime.ops.core.broadcast import Walk, broadcast_call, commuted
from twinfer.runtime.ops.elementwise._plane import plane_of
from twinfer.runtime.ops.elementwise.add import sign_of
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def lower(node: Node, target: Target) -> Call:
    a, b, y = node.input(0), node.input(1), node.output
    if node.op == "ADD":
        a, b = commuted(a, b)
    walk = Walk.of(a, b, target)
    accept(bool(walk.a_step and walk.b_step), "an operand has one value per row")
    flat = plane_of(a, b, y, sign_of(node))
    offset = (flat["offset"] - 128 * (flat["a_mult"] + flat["b_mult"]) + (1 << 31)) % (1 << 32) - (1 << 31)
    return broadcast_call("tw_add_wide_s8", (a, b), y, {**flat, "offset": offset, **output_range(node)}, target)


VARIANT = Variant("wide", ("ADD", "SUB"), frozenset({"simd"}), lower, ("INT8",))
