"""MUL of int8 with one short requantisation: kernels_c/elementwise/mul.h, ``tw_mul_scaled_s8``."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.activation import output_range
from twinfer.runtime.ops.core.broadcast import broadcast_call, commuted
from twinfer.runtime.ops.core.requantize import SHIFTS
from twinfer.runtime.ops.elementwise.mul import multiplier
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def lower(node: Node, target: Target) -> Call:
    a, b = commuted(node.input(0), node.input(1))
    mult, shift = multiplier(node)
    accept(output_range(node) == {"low": -128, "high": 127}, "it has a fused activation")
    accept(SHIFTS[0] <= shift <= SHIFTS[1], f"the shift is {shift}, not in {SHIFTS[0]}..{SHIFTS[1]}")
    rounding = (2 * node.output.zero + 1) << -shift >> 1
    params = {"a_zero": a.zero, "b_zero": b.zero, "mult": mult, "right": -shift, "rounding": rounding}
    return broadcast_call("tw_mul_scaled_s8", (a, b), node.output, params, target)


VARIANT = Variant("words", ("MUL",), frozenset({"words"}), lower, ("INT8",))
