"""SVDF of int8 on the DSP extension: kernels_c/recurrent/svdf_dsp.h."""

from __future__ import annotations

from typing import Any

import numpy as np

from twinfer.runtime.constant import bias, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.packing import FOURS, padded
from twinfer.runtime.ops.isa.dsp import fours, most_of, need_bytes, need_short
from twinfer.runtime.ops.recurrent.svdf import call_of, filters_of, params_s8
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    own, params = filters_of(node), params_s8(node)
    shift: Any = params["shift"]
    need_short(int(most_of(own.features, own.starts).max()), shift)
    starts = bias((2 * padded(own.starts, 4)).astype(np.int32))
    bytes, size = need_bytes(own.features), own.features.shape[1]
    features = weights(fours(own.features, bytes=bytes), FOURS)
    inputs = (node.input(0), features, weights(own.time), bias(own.bias), starts)
    kernel = "tw_svdf_dsp_s8" if node.input(4).type == "INT8" else "tw_svdf_dsp_s16"
    return call_of(node, kernel, {"all": params, "bytes": int(bytes)}, inputs, -(-size // 4) * 4 if size % 4 else 0)


VARIANT = Variant("dsp", ("SVDF",), frozenset({"dsp"}), lower, ("INT8",))
