"""BATCH_MATMUL of int8, FULLY_CONNECTED by computed weights, too, on the DSP extension: batch_matmul_dsp.h."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.dense._product import product_of
from twinfer.runtime.ops.isa.dsp import PIXELS
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    product = product_of(node)
    words = -(-product.matrices["depth"] // 4) * 2
    rows = -(-product.matrices["rows"] // PIXELS) * PIXELS
    return product.call("tw_batch_matmul_dsp_s8", {"right": -product.shift, "words": words}, 4 * words * (rows + 2))


VARIANT = Variant("dsp", ("BATCH_MATMUL",), frozenset({"dsp"}), lower, ("INT8",), also=("FULLY_CONNECTED",))
