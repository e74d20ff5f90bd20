"""SVDF of int8 on Helium: kernels_c/recurrent/svdf_mve.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import bias, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.isa.mve import FOUR
from twinfer.runtime.ops.recurrent.svdf import call_of, filters_of, params_s8
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

#: The longest memory: offsets of four filters are far from any limit.
_MEMORY = 1 << 14


def lower(node: Node, target: Target) -> Call:
    own = filters_of(node)
    filters, memory = own.time.shape
    accept(memory <= _MEMORY, f"the memory has {memory} values, more than {_MEMORY}")
    first = np.minimum(np.arange(0, filters, FOUR), max(filters - FOUR, 0))
    starts = own.starts[np.minimum(first[:, None] + np.arange(FOUR), filters - 1)]
    inputs = (node.input(0), weights(own.features), weights(own.time), bias(own.bias), bias(starts))
    kernel = "tw_svdf_mve_s8" if node.input(4).type == "INT8" else "tw_svdf_mve_s16"
    return call_of(node, kernel, params_s8(node), inputs)


VARIANT = Variant("mve", ("SVDF",), frozenset({"mve"}), lower, ("INT8",))
