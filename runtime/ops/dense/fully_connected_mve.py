"""FULLY_CONNECTED on Helium: kernels_c/dense/fully_connected_mve*.h."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinfer.runtime.constant import per_channel, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.core.packing import EIGHTS, ENDS, FOURS
from twinfer.runtime.ops.dense._layer import dense_by_sums, dense_of
from twinfer.runtime.ops.isa.mve import BLOCK_S8, BLOCK_S16, EIGHT, FOUR, eights, packed_fours, stored
from twinfer.runtime.ops.isa.short import channels_s8, channels_s16
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def lower_s8(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = dense_of(node)
    channels, out = channels_s8(layer.node, layer.weights, layer.bias), len(layer.weights)
    first = np.minimum(np.arange(0, out, FOUR), max(out - FOUR, 0))
    each = np.minimum(first[:, None] + np.arange(FOUR), out - 1)
    shift = channels.shift.astype(np.int8)[each].view("<i4")
    ends = np.concatenate([channels.bias[each], channels.mult[each], shift], 1).astype(np.int32)
    inputs = (node.input(0), weights(channels.weights), per_channel(ends, ENDS))
    params: dict[str, Param] = {**layer.shape, "end": channels.end}
    stored = Weights(unit=FOUR, overlap=True)
    call = Call("tw_fully_connected_mve_s8", params, inputs, (node.output,), macs=layer.macs, weights=stored)
    return dense_by_sums(layer, call, "tw_fully_connected_sums_mve_s8") if out >= FOUR else call


def lower_eights(node: Node, target: Target) -> Call:
    """The call over eight channels at a time; by rows as it is."""
    layer = dense_of(node)
    accept(len(layer.weights) % EIGHT == 0, f"its output channels are no multiple of {EIGHT}")
    accept(layer.weights.shape[1] % BLOCK_S8 == 0, f"its depth is no multiple of {BLOCK_S8}")
    call, c = lower_s8(node, target), channels_s8(layer.node, layer.weights, layer.bias)
    at = eights(len(c.weights))
    blocks = c.weights[at].reshape(len(at) // EIGHT, EIGHT, -1, BLOCK_S8).transpose(0, 2, 1, 3)
    ends = [
        v[at].reshape(-1, EIGHT).astype(kind).view("<i4")
        for v, kind in ((c.bias, "<i4"), (c.mult, "<i4"), (c.shift, "i1"))
    ]
    inputs = (call.inputs[0], weights(np.ascontiguousarray(blocks), EIGHTS), per_channel(np.hstack(ends), ENDS))
    return replace(call, kernel="tw_fully_connected_eights_mve_s8", inputs=inputs, weights=Weights(unit=EIGHT))


def lower_s16(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = dense_of(node)
    c = channels_s16(layer.node, layer.weights)
    tile = {"blocks": -(-layer.shape["depth"] // BLOCK_S16), "chunk": BLOCK_S16 * c.chunk(BLOCK_S16)}
    params: dict[str, Param] = {**layer.shape, **tile, "limits": c.limits}
    packed = packed_fours(c)
    inputs = (node.input(0), weights(packed, FOURS))
    return Call("tw_fully_connected_mve_s16", params, inputs, (node.output,), macs=layer.macs, weights=stored(packed))


VARIANTS = (
    Variant("eights_mve", ("FULLY_CONNECTED",), frozenset({"mve"}), lower_eights, ("INT8",), few=True),
    Variant("mve", ("FULLY_CONNECTED",), frozenset({"mve"}), lower_s8, ("INT8",), also=("BATCH_MATMUL",)),
    Variant("mve", ("FULLY_CONNECTED",), frozenset({"mve"}), lower_s16, ("INT16",), also=("BATCH_MATMUL",)),
)
