"""BATCH_MATMUL of int8, FULLY_CONNECTED by computed weights, too, on Helium: batch_matmul_mve.h."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.dense._product import need_near, product_of
from twinfer.runtime.ops.isa.mve import BLOCK_S8, FOUR
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    product = product_of(node)
    m = product.matrices
    need_near(m)
    blocks = -(-m["depth"] // BLOCK_S8)
    scratch = 4 * m["rows"] + BLOCK_S8 * blocks * (m["rows"] + FOUR) + 4 * FOUR
    return product.call("tw_batch_matmul_mve_s8", {"shift": product.shift, "blocks": blocks}, scratch)


VARIANT = Variant("mve", ("BATCH_MATMUL",), frozenset({"mve"}), lower, ("INT8",), also=("FULLY_CONNECTED",))
