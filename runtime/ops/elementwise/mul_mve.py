"""MUL of int8 on Helium: kernels_c/elementwise/mul_mve.h."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.activation import output_range
from twinfer.runtime.ops.core.broadcast import Walk, broadcast_call, commuted
from twinfer.runtime.ops.elementwise.mul import multiplier
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def lower(node: Node, target: Target) -> Call:
    a, b = commuted(node.input(0), node.input(1))
    mult, shift = multiplier(node)
    accept(shift <= 0, "the multiplier is above 1")
    accept(Walk.of(a, b, target).b_step != 0, "an operand has one value per row")
    params = {"a_zero": a.zero, "b_zero": b.zero, "out_zero": node.output.zero, "mult": mult, "shift": shift}
    return broadcast_call("tw_mul_mve_s8", (a, b), node.output, params | output_range(node), target)


VARIANT = Variant("mve", ("MUL",), frozenset({"mve"}), lower, ("INT8",))
