"""ADD and SUB of int8 as one plane over both operands: kernels_c/elementwise/add.h, ``tw_add_plane_s8``."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.activation import output_range
from twinfer.runtime.ops.core.broadcast import broadcast_call, commuted
from twinfer.runtime.ops.core.plane import plane
from twinfer.runtime.ops.elementwise.add import quantized_sum, sign_of
from twinfer.runtime.ops.functions._unary import INT8
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept, present


def lower(node: Node, target: Target) -> Call:
    a, b, y, sign = node.input(0), node.input(1), node.output, sign_of(node)
    accept(output_range(node) == {"low": -128, "high": 127}, "it has a fused activation")
    if node.op == "ADD":
        a, b = commuted(a, b)
    values = INT8.astype(np.int64)
    exact = quantized_sum(values[:, None], values, a, b, y, sign)
    flat = plane(exact, a.scale / y.scale, sign * b.scale / y.scale)
    return broadcast_call("tw_add_plane_s8", (a, b), y, present(flat, "no plane gives all 65,536 sums"), target)


VARIANT = Variant("words", ("ADD", "SUB"), frozenset({"words"}), lower, ("INT8",))
