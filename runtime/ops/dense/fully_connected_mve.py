"""FULLY_CONNECTED on Helium: kernels_c/dense/fully_connected_mve*.h."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinfer.runtime.constant import Constant, bias, per_channel, weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.core.packing import EIGHTS, ENDS, FOURS
from twinfer.runtime.ops.dense._layer import Unsigned, dense_by_sums, dense_of, macs_of, unsigned_of
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
    each = _fours(out)
    shift = channels.shift.astype(np.int8)[each].view("<i4")
    ends = np.concatenate([channels.bias[each], channels.mult[each], shift], 1).astype(np.int32)
    inputs = (node.input(0), weights(channels.weights), per_channel(ends, ENDS))
    params: dict[str, Param] = {**layer.shape, "end": channels.end}
    stored = Weights(unit=FOUR, overlap=True)
    call = Call("tw_fully_connected_mve_s8", params, inputs, (node.output,), macs=layer.macs, weights=stored)
    return dense_by_sums(layer, call, "tw_fully_connected_sums_mve_s8") if out >= FOUR else call


def lower_unsigned(node: Node, target: Target) -> Call:
    """The call for what was uint8."""
    layer = unsigned_of(node)
    packed, starts = weights(layer.weights), bias(layer.bias[_fours(len(layer.bias))])
    return _unsigned("tw_fully_connected_unsigned_mve_s8", layer, packed, starts)


def lower_unsigned_eights(node: Node, target: Target) -> Call:
    """The same over eight channels at a time."""
    layer = unsigned_of(node)
    packed, starts = _eights_of(layer.weights), bias(layer.bias[eights(len(layer.bias))])
    return _unsigned("tw_fully_connected_unsigned_eights_mve_s8", layer, packed, starts)


def _unsigned(kernel: str, layer: Unsigned, packed: Constant, starts: Constant) -> Call:
    """The call of a kernel over weights and biases that are packed for it."""
    node, inputs = layer.node, (layer.node.input(0), packed, starts)
    return Call(kernel, layer.params(), inputs, (node.output,), macs=macs_of(node), weights=Weights())


def _fours(out: int) -> Array:
    """Four channels after four, [out / 4 rounded up, 4]; the last four begin at out - 4, or are all."""
    first = np.minimum(np.arange(0, out, FOUR), max(out - FOUR, 0))
    return np.minimum(first[:, None] + np.arange(FOUR), out - 1)


def lower_eights(node: Node, target: Target) -> Call:
    """The call over eight channels at a time; by rows as it is."""
    layer = dense_of(node)
    call, c = lower_s8(node, target), channels_s8(layer.node, layer.weights, layer.bias)
    packed, at = _eights_of(c.weights), eights(len(c.weights))
    ends = [
        v[at].reshape(-1, EIGHT).astype(kind).view("<i4")
        for v, kind in ((c.bias, "<i4"), (c.mult, "<i4"), (c.shift, "i1"))
    ]
    inputs = (call.inputs[0], packed, per_channel(np.hstack(ends), ENDS))
    return replace(call, kernel="tw_fully_connected_eights_mve_s8", inputs=inputs, weights=Weights(unit=EIGHT))


def _eights_of(w: Array) -> Constant:
    """Weights int8 [out, depth] in blocks of eight channels."""
    out, depth = w.shape
    accept(out % EIGHT == 0, f"its output channels are no multiple of {EIGHT}")
    accept(depth % BLOCK_S8 == 0, f"its depth is no multiple of {BLOCK_S8}")
    blocks = w[eights(out)].reshape(out // EIGHT, EIGHT, -1, BLOCK_S8).transpose(0, 2, 1, 3)
    return weights(np.ascontiguousarray(blocks), EIGHTS)


def lower_s16(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = dense_of(node)
    c = channels_s16(layer.node, layer.weights)
    tile = {"blocks": -(-layer.shape["depth"] // BLOCK_S16), "chunk": BLOCK_S16 * c.chunk(BLOCK_S16)}
    params: dict[str, Param] = {**layer.shape, **tile, "limits": c.limits}
    packed = packed_fours(c)
    inputs = (node.input(0), weights(packed, FOURS))
    return Call("tw_fully_connected_mve_s16", params, inputs, (node.output,), macs=layer.macs, weights=stored(packed))


_NEEDS = frozenset({"mve"})

VARIANTS = (
    Variant("eights_mve", ("FULLY_CONNECTED",), _NEEDS, lower_eights, ("INT8",), few=True),
    Variant("mve", ("FULLY_CONNECTED",), _NEEDS, lower_s8, ("INT8",), also=("BATCH_MATMUL",)),
    Variant("unsigned_eights_mve", ("FULLY_CONNECTED",), _NEEDS, lower_unsigned_eights, ("INT8",), few=True),
    Variant("unsigned_mve", ("FULLY_CONNECTED",), _NEEDS, lower_unsigned, ("INT8",)),
    Variant("mve", ("FULLY_CONNECTED",), _NEEDS, lower_s16, ("INT16",), also=("BATCH_MATMUL",)),
)
