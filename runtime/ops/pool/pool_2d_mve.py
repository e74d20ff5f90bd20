"""AVERAGE_POOL_2D and MAX_POOL_2D of int8 on Helium: kernels_c/pool/pool_2d_mve.h."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.unsigned import is_unsigned
from twinfer.runtime.ops.pool.pool_2d import geometry, pool_call
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

#: Most values of a window: up to here the kernel can divide by multiplying.
MOST = 4087

KERNELS = {"AVERAGE_POOL_2D": "tw_average_pool_2d_mve_s8", "MAX_POOL_2D": "tw_max_pool_2d_mve_s8"}


def lower(node: Node, target: Target) -> Call:
    g = geometry(node)
    most = node.op == "MAX_POOL_2D"
    accept(most or not is_unsigned(node), "the averages of uint8 are rounded half up")
    accept(most or g.k_h * g.k_w <= MOST, f"a window has {g.k_h * g.k_w} values, {MOST} are the limit")
    return pool_call(KERNELS[node.op], node)


VARIANT = Variant("mve", tuple(KERNELS), frozenset({"mve"}), lower, ("INT8",))
