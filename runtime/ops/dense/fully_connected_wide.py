"""FULLY_CONNECTED over 16 lanes, int8, int16 and float32: kernels_c/dense/fully_connected_wide.h."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinfer.runtime import constant
from twinfer.runtime.constant import bias, requantize, weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._bands import call_s16
from twinfer.runtime.ops.core.activation import output_range
from twinfer.runtime.ops.core.channels import epilogue, fold_zero, lane_channels
from twinfer.runtime.ops.core.madd import float_kernel
from twinfer.runtime.ops.core.packing import (
    LANES,
    LANES_F32,
    LANES_HALVES,
    LANES_S8,
    ROWS,
    pack_f32,
    pack_lanes,
    pack_s8,
    padded,
)
from twinfer.runtime.ops.core.requantize_s16 import Channels
from twinfer.runtime.ops.core.unsigned import is_unsigned
from twinfer.runtime.ops.dense._layer import Dense, dense_of, in_float64
from twinfer.runtime.ops.isa.short import channels_in_32_bits
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def lower_s8(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = dense_of(node)
    return _lower_f32(layer) if node.input(0).type == "FLOAT32" else _lower_s8(layer)


def lower_unsigned(node: Node, target: Target) -> Call:
    """The call for what was uint8: the lanes are worth more than integers at the end."""
    accept(is_unsigned(node), "it was not uint8")
    return in_float64(node)


def _lower_f32(layer: Dense) -> Call:
    """Batches are pixels of a convolution."""
    node, limits = layer.node, output_range(layer.node)
    packed = (node.input(0), weights(pack_f32(layer.weights), LANES_F32), constant.bias(padded(layer.bias)))
    if layer.shape["batches"] == 1:
        one: dict[str, Param] = {**layer.shape, "limits": limits}
        return Call(float_kernel("tw_fully_connected_wide", node), one, packed, (node.output,), macs=layer.macs)
    many: dict[str, Param] = {"window": layer.window.params, "limits": limits, "columns": 0}
    return Call(float_kernel("tw_conv2d_wide", node), many, packed, (node.output,), macs=layer.macs)


def _lower_s8(layer: Dense) -> Call:
    return call_s8(layer.node, layer.weights, layer.bias, layer.shape["batches"], layer.macs)


def call_s8(node: Node, w: Array, bias: Array, batches: int, macs: int) -> Call:
    """The call that multiplies rows of the node's first input [batches, depth] by int8 weights [out, depth]."""
    (out, depth), zero = w.shape, node.input(0).zero
    depth4 = -(-depth // 4) * 4
    ends, fast = lane_channels(node, fold_zero(w, bias, 128 + zero), one=True)
    mults = 1 if ends[1].array.size == 1 else out
    rows = 1 if batches == 1 else -(-batches // ROWS) * ROWS
    sizes = {"batches": batches, "depth": depth, "out": out, "depth4": depth4}
    params: dict[str, Param] = {**sizes, "end": epilogue(node), "mults": mults, "fast": fast}
    inputs, stored = (node.input(0), weights(pack_s8(w), LANES_S8), *ends), Weights(unit=LANES)
    return Call("tw_fully_connected_wide_s8", params, inputs, (node.output,), rows * depth4, macs=macs, weights=stored)


def lower_s16(node: Node, target: Target) -> Call:
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


VARIANTS = (
    Variant("wide", ("FULLY_CONNECTED",), frozenset({"simd"}), lower_s8, ("INT8", "FLOAT32"), also=("BATCH_MATMUL",)),
    Variant("unsigned_wide", ("FULLY_CONNECTED",), frozenset({"simd"}), lower_unsigned, ("INT8",)),
    Variant("wide", ("FULLY_CONNECTED",), frozenset({"simd"}), lower_s16, ("INT16",), also=("BATCH_MATMUL",)),
)
