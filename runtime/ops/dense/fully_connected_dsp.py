"""FULLY_CONNECTED on the DSP extension: kernels_c/dense/fully_connected_dsp*.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import bias, requantize, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.channels import mults_of
from twinfer.runtime.ops.core.packing import FOURS, padded
from twinfer.runtime.ops.core.requantize import Channels
from twinfer.runtime.ops.dense._layer import Dense, dense_by_sums, dense_of, macs_of, unsigned_of
from twinfer.runtime.ops.isa.dsp import alternating, fours_s16, need_bytes, pairs
from twinfer.runtime.ops.isa.short import channels_s8, channels_s16
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant

#: Values of x in a word.
WORD = 4


#: The layout of rows of one or two weights.
SHORT = "two weights as halves, then the bias doubled"


def lower_s8(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = dense_of(node)
    (out, depth) = layer.weights.shape
    channels = channels_s8(layer.node, layer.weights, layer.bias)
    if depth <= 2:
        return _lower_short(layer, channels)
    bytes = need_bytes(channels.weights)
    words, chunk = pairs(channels.weights, 4, bytes=bytes)
    k4 = 2 * words.shape[1]
    mult, shift = padded(channels.mult, 4), np.ones(2 * len(words), np.int8)
    shift[:out] = -channels.shift
    if mults_of(channels.mult, channels.shift) == 1:
        mult, shift = mult[:1], shift[:1]
    ends = (bias(padded(2 * channels.bias, 4)), requantize(mult), requantize(shift))
    inputs, scratch = (node.input(0), weights(alternating(words), FOURS), *ends), k4 if k4 != depth else 0
    params = {**layer.shape, "k4": k4, "chunk": chunk, "mults": mult.size, "bytes": int(bytes), "end": channels.end}
    stored = Weights(halves=not bytes, unit=4)
    call = Call("tw_fully_connected_dsp_s8", params, inputs, (node.output,), scratch, macs=layer.macs, weights=stored)
    return dense_by_sums(layer, call, "tw_fully_connected_sums_dsp_s8", WORD)


def lower_unsigned(node: Node, target: Target) -> Call:
    """The call for what was uint8."""
    layer = unsigned_of(node)
    bytes = need_bytes(layer.weights)
    words, chunk = pairs(layer.weights, 4, bytes=bytes)
    k4 = 2 * words.shape[1]
    inputs = (node.input(0), weights(alternating(words), FOURS), bias(padded(2 * layer.bias, 4)))
    params = {**layer.params(bits=1), "k4": k4, "chunk": chunk, "bytes": int(bytes)}
    scratch, stored = k4 if k4 != layer.weights.shape[1] else 0, Weights(halves=not bytes)
    kernel, macs = "tw_fully_connected_unsigned_dsp_s8", macs_of(node)
    return Call(kernel, params, inputs, (node.output,), scratch, macs=macs, weights=stored)


def _lower_short(layer: Dense, channels: Channels) -> Call:
    """The call for rows of one or two weights, which words of four would fill with padding."""
    mults = mults_of(channels.mult, channels.shift)
    halves = padded(channels.weights.astype(np.int16), 2, axis=1).view(np.int32)
    rows = np.stack((halves[:, 0], 2 * channels.bias), axis=1)
    ends = requantize(channels.mult[:mults]), requantize(-channels.shift[:mults])
    params: dict[str, Param] = {**layer.shape, "mults": mults, "end": channels.end}
    inputs, kernel = (layer.node.input(0), weights(rows, SHORT), *ends), "tw_fully_connected_short_dsp_s8"
    return Call(kernel, params, inputs, (layer.node.output,), macs=layer.macs)


def lower_s16(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = dense_of(node)
    c = channels_s16(layer.node, layer.weights)
    words = fours_s16(c.weights)
    mult = c.mult[:1] if mults_of(c.mult) == 1 else padded(c.mult, 4)
    inputs = (node.input(0), weights(words, FOURS), bias(padded(c.bias, 4)), requantize(mult))
    k4 = words.shape[1]
    scratch = 2 * k4 if k4 != layer.shape["depth"] else 0
    params = {**layer.shape, "k4": k4, "chunk": 2 * c.chunk(4), "mults": mult.size, "limits": c.limits}
    stored = Weights(halves=True, unit=4)
    return Call("tw_fully_connected_dsp_s16", params, inputs, (node.output,), scratch, macs=layer.macs, weights=stored)


VARIANTS = (
    Variant("dsp", ("FULLY_CONNECTED",), frozenset({"dsp"}), lower_s8, ("INT8",), also=("BATCH_MATMUL",)),
    Variant("unsigned_dsp", ("FULLY_CONNECTED",), frozenset({"dsp"}), lower_unsigned, ("INT8",)),
    Variant("dsp", ("FULLY_CONNECTED",), frozenset({"dsp"}), lower_s16, ("INT16",), also=("BATCH_MATMUL",)),
)
