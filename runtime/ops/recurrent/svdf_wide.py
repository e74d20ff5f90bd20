"""SVDF of int8 with a state of int8 over 16 lanes: kernels_c/recurrent/svdf_wide.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime import constant
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.activation import quantized_range
from twinfer.runtime.ops.core.channels import one_rounding
from twinfer.runtime.ops.core.packing import LANES_S8, pack_s8, padded
from twinfer.runtime.ops.recurrent.svdf import call_of, filters_of, multipliers_of
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def lower(node: Node, target: Target) -> Call:
    x, state, y = node.input(0), node.input(4), node.output
    accept(state.type == "INT8", "the state is of int16")
    own = filters_of(node)
    (mult, shift), (out_mult, out_shift) = multipliers_of(node)
    (batches, size), (filters, memory), units = x.shape, own.time.shape, y.shape[1]
    shifts = np.full(filters, shift if mult else -1, np.int8)
    ends = (constant.requantize(padded(np.full(filters, mult, np.int32))), constant.requantize(padded(shifts)))
    low, high = quantized_range(node, y)
    params: dict[str, Param] = {
        "newest": {"zero": state.zero, "low": -128, "high": 127}, "end": {"zero": y.zero, "low": low, "high": high},
        "batches": batches, "size": size, "depth4": -(-size // 4) * 4, "units": units, "rank": filters // units,
        "memory": memory, "fast": one_rounding(shifts), "mult": out_mult, "shift": out_shift,
    }  # fmt: skip
    starts = own.starts - 128 * own.features.astype(np.int32).sum(axis=1, dtype=np.int32)
    packed = constant.weights(pack_s8(own.features), LANES_S8)
    inputs = (x, packed, constant.bias(padded(starts)), *ends, constant.weights(own.time), constant.bias(own.bias))
    return call_of(node, "tw_svdf_wide_s8", params, inputs, -(-size // 4) * 4 + filters)


VARIANT = Variant("wide", ("SVDF",), frozenset({"simd"}), lower, ("INT8",))
