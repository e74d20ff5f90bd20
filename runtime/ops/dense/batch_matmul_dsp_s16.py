"""BATCH_MATMUL of int16 by int16 or int8 on the DSP extension: kernels_c/dense/batch_matmul_dsp_s16.h."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.dense._product import matrices_s16, product_s16
from twinfer.runtime.ops.isa.dsp import PIXELS
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    m = matrices_s16(node)
    words, rows = -(-m["depth"] // 4) * 2, -(-m["rows"] // PIXELS) * PIXELS
    return product_s16(node, target, "tw_batch_matmul_dsp_s16", {"words": words}, 4 * words * (rows + 1))


VARIANT = Variant("dsp", ("BATCH_MATMUL",), frozenset({"dsp"}), lower, ("INT16",))
