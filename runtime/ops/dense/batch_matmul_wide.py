"""BATCH_MATMUL of int8, FULLY_CONNECTED by computed weights, too, on computers: batch_matmul_wide.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import requantize
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.channels import one_rounding
from twinfer.runtime.ops.core.packing import LANES, ROWS
from twinfer.runtime.ops.dense._product import product_of
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    """The call for matrices that are computed."""
    product = product_of(node)
    k4, rows = (-(-product.matrices[name] // size) * size for name, size in (("depth", 4), ("rows", ROWS)))
    shift = np.full(LANES, product.shift, np.int8)
    ends = requantize(np.full(LANES, product.mult, np.int32)), requantize(shift)
    sizes = {"k4": k4, "padded": rows, "fast": one_rounding(shift)}
    return product.call("tw_batch_matmul_wide_s8", sizes, rows * (4 + k4) + LANES * k4, ends)


VARIANT = Variant("wide", ("BATCH_MATMUL",), frozenset({"simd"}), lower, ("INT8",), also=("FULLY_CONNECTED",))
