"""AVERAGE_POOL_2D and MAX_POOL_2D of int8 by rows of outputs, on computers: kernels_c/pool/pool_2d_wide.h."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.unsigned import is_unsigned
from twinfer.runtime.ops.pool.pool_2d import geometry, pool_call
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

#: Most values of a window: up to here averages are exact in 16 bits.
MOST = 16


def lower(node: Node, target: Target) -> Call:
    g = geometry(node)
    values = min(g.k_h, g.in_h) * min(g.k_w, g.in_w)
    accept(node.op == "MAX_POOL_2D" or values <= MOST, f"a window has {values} values, {MOST} are the limit")
    return pool_call(_kernel(node), node, 2 * (g.in_w + g.out_w) * g.in_c)


def _kernel(node: Node) -> str:
    if node.op == "MAX_POOL_2D":
        return "tw_max_pool_2d_wide_s8"
    return f"tw_average_pool_2d_{'up_' if is_unsigned(node) else ''}wide_s8"


VARIANT = Variant("wide", ("AVERAGE_POOL_2D", "MAX_POOL_2D"), frozenset({"simd"}), lower, ("INT8",))
