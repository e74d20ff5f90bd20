"""MUL of int8 with one short requantisation, on computers: kernels_c/elementwise/mul_wide.h."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.activation import output_range
from twinfer.runtime.ops.core.broadcast import Walk, broadcast_call, commuted
from twinfer.runtime.ops.elementwise.mul import multiplier
from twinfer.runtime.ops.isa.short import scaled_s8
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def lower(node: Node, target: Target) -> Call:
    a, b = commuted(node.input(0), node.input(1))
    accept(output_range(node) == {"low": -128, "high": 127}, "it has a fused activation")
    accept(Walk.of(a, b, target).b_step != 0, "an operand has one value per row")
    params = {"a_zero": a.zero, "b_zero": b.zero, **scaled_s8(*multiplier(node), node.output.zero)}
    return broadcast_call("tw_mul_wide_s8", (a, b), node.output, params, target)


VARIANT = Variant("wide", ("MUL",), frozenset({"simd"}), lower, ("INT8",))
