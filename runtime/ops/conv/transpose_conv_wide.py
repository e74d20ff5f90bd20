"""TRANSPOSE_CONV of int8 on computers: kernels_c/conv/transpose_conv_wide.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime import constant
from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._parts import taps_of
from twinfer.runtime.ops.core.channels import epilogue, fold_zero, lane_channels
from twinfer.runtime.ops.core.packing import LANES_S8, ROWS, pack_s8, padded
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer, x = taps_of(node, "INT8"), node.input(2)
    k4 = max(-(-taps.shape[1] // 4) * 4 for taps in layer.taps)
    (_, mult, shift), fast = lane_channels(layer.conv, layer.bias)
    starts = np.stack([padded(fold_zero(taps, layer.bias, 128 + x.zero)) for taps in layer.taps])
    whole = np.concatenate([pack_s8(taps).reshape(-1) for taps in layer.taps])
    sizes = {"k4": k4, "in_zero": x.zero, "fast": fast}
    params: dict[str, Param] = {"window": layer.window.params, "end": epilogue(layer.conv), **sizes}
    inputs, kernel = (x, weights(whole, LANES_S8), constant.bias(starts), mult, shift), "tw_transpose_conv_wide_s8"
    return Call(kernel, params, inputs, (node.output,), ROWS * k4, macs=layer.macs)


VARIANT = Variant("wide", ("TRANSPOSE_CONV",), frozenset({"simd"}), lower)
