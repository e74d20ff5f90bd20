"""BATCH_MATMUL of int16 by int16 or int8 on Helium: kernels_c/dense/batch_matmul_mve_s16.h."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.dense._product import matrices_s16, need_near, product_s16
from twinfer.runtime.ops.isa.mve import BLOCK_S16, FOUR
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    m = matrices_s16(node)
    need_near(m)
    blocks = -(-m["depth"] // BLOCK_S16)
    scratch = 2 * BLOCK_S16 * blocks * (m["rows"] + FOUR)
    return product_s16(node, target, "tw_batch_matmul_mve_s16", {"blocks": blocks}, scratch)


VARIANT = Variant("mve", ("BATCH_MATMUL",), frozenset({"mve"}), lower, ("INT16",))
