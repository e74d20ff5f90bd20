"""FULLY_CONNECTED of int16 and int8 over 16 lanes: kernels_c/dense/fully_connected_wide.h."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinfer.runtime.constant import bias, requantize, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._bands import call_s16
from twinfer.runtime.ops.core.packing import LANES_HALVES, pack_lanes, padded
from twinfer.runtime.ops.core.requantize_s16 import Channels
from twinfer.runtime.ops.dense._layer import dense_of
from twinfer.runtime.ops.isa.short import channels_in_32_bits
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights; batches are pixels of a convolution."""
    layer = dense_of(node)
    channels = channels_in_32_bits(layer.node, layer.weights)
    batches = layer.shape["batches"]
    if batches == 1:
        return call_row(layer.node, channels)
    accept(batches > 0, "it has no batch")
    call = call_s16(layer.node, layer.window, channels)
    return replace(call, rows=None)  # the window's rows are not those of the tensors


def call_row(node: Node, channels: Channels) -> Call:
    """The call that multiplies the node's first input, all of it, by the weights."""
    out, depth = channels.weights.shape
    packed = pack_lanes(channels.weights.astype(np.int16), 2)
    ends = bias(padded(channels.bias)), requantize(padded(channels.mult))
    inputs = (node.input(0), weights(packed, LANES_HALVES), *ends)
    params: dict[str, Param] = {"limits": channels.limits, "depth": depth, "out": out}
    scratch = 2 * (depth + 1) if depth % 2 else 0
    return Call(
        "tw_fully_connected_wide_s16", params, inputs, (node.output,), scratch, macs=out * depth, weights=Weights()
    )


VARIANT = Variant("wide", ("FULLY_CONNECTED",), frozenset({"simd"}), lower, ("INT16",), also=("BATCH_MATMUL",))
