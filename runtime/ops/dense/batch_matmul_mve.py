"""BATCH_MATMUL on Helium: kernels_c/dense/batch_matmul_mve*.h."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.dense._product import matrices_s16, need_near, product_of, product_s16
from twinfer.runtime.ops.isa.mve import BLOCK_S8, BLOCK_S16, FOUR
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower_s8(node: Node, target: Target) -> Call:
    product = product_of(node)
    m = product.matrices
    need_near(m)
    blocks = -(-m["depth"] // BLOCK_S8)
    scratch = 4 * m["rows"] + BLOCK_S8 * blocks * (m["rows"] + FOUR) + 4 * FOUR
    return product.call("tw_batch_matmul_mve_s8", {"shift": product.shift, "blocks": blocks}, scratch)


def lower_s16(node: Node, target: Target) -> Call:
    m = matrices_s16(node)
    need_near(m)
    blocks = -(-m["depth"] // BLOCK_S16)
    scratch = 2 * BLOCK_S16 * blocks * (m["rows"] + FOUR)
    return product_s16(node, target, "tw_batch_matmul_mve_s16", {"blocks": blocks}, scratch)


VARIANTS = (
    Variant("mve", ("BATCH_MATMUL",), frozenset({"mve"}), lower_s8, ("INT8",), also=("FULLY_CONNECTED",)),
    Variant("mve", ("BATCH_MATMUL",), frozenset({"mve"}), lower_s16, ("INT16",)),
)
