"""ADD and SUB of int8 on Helium: kernels_c/elementwise/add_mve.h."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.activation import output_range
from twinfer.runtime.ops.core.broadcast import Walk, broadcast_call
from twinfer.runtime.ops.elementwise.add import LEFT_SHIFTS, multipliers, sign_of
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

LEFT_SHIFT = LEFT_SHIFTS["INT8"]


def lower(node: Node, target: Target) -> Call:
    a, b, y, sign = node.input(0), node.input(1), node.output, sign_of(node)
    if swap := b.scale > a.scale:
        a, b = b, a
    _, (b_mult, b_shift), (mult, shift) = multipliers(a, b, y)
    walk = Walk.of(a, b, target)
    accept(bool(walk.a_step and walk.b_step), "an operand has one value per row")
    accept(shift < 0, "the sum is not shifted to the right")
    more = LEFT_SHIFT if b_shift < 0 else LEFT_SHIFT + 1  # no shift may be 0: it would round differently
    params: dict[str, Param] = {
        "a_scale": sign << (LEFT_SHIFT - 1), "a_start": -a.zero * sign << (LEFT_SHIFT - 1),
        "b_scale": 1 << more, "b_start": -b.zero << more, "b_mult": b_mult, "b_shift": min(b_shift, -1),
        "out_zero": y.zero, "mult": mult if swap else mult * sign, "shift": shift,
    }  # fmt: skip
    return broadcast_call("tw_add_mve_s8", (a, b), y, params | output_range(node), target)


VARIANT = Variant("mve", ("ADD", "SUB"), frozenset({"mve"}), lower, ("INT8",))
