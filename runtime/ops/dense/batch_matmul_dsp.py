"""BATCH_MATMUL on the DSP extension: kernels_c/dense/batch_matmul_dsp*.h."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.dense._product import matrices_s16, product_of, product_s16
from twinfer.runtime.ops.isa.dsp import PIXELS
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower_s8(node: Node, target: Target) -> Call:
    product = product_of(node)
    words = -(-product.matrices["depth"] // 4) * 2
    rows = -(-product.matrices["rows"] // PIXELS) * PIXELS
    return product.call("tw_batch_matmul_dsp_s8", {"right": -product.shift, "words": words}, 4 * words * (rows + 2))


def lower_s16(node: Node, target: Target) -> Call:
    m = matrices_s16(node)
    words, rows = -(-m["depth"] // 4) * 2, -(-m["rows"] // PIXELS) * PIXELS
    return product_s16(node, target, "tw_batch_matmul_dsp_s16", {"words": words}, 4 * words * (rows + 1))


VARIANTS = (
    Variant("dsp", ("BATCH_MATMUL",), frozenset({"dsp"}), lower_s8, ("INT8",), also=("FULLY_CONNECTED",)),
    Variant("dsp", ("BATCH_MATMUL",), frozenset({"dsp"}), lower_s16, ("INT16",)),
)
