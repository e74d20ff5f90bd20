"""CONV_2D, whole and in groups, and TRANSPOSE_CONV on Helium, int8 and int16: kernels_c/conv/*_mve*.h."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinfer.runtime.constant import Constant, index, weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._layer import ONE_CHANNEL, Convolution, convolution_of
from twinfer.runtime.ops.conv._parts import groups_of, groups_s16, phases_of, phases_s16
from twinfer.runtime.ops.core.packing import FOURS, padded
from twinfer.runtime.ops.core.requantize import Channels
from twinfer.runtime.ops.isa.mve import BLOCK_S8, BLOCK_S16, FOUR, PIXELS, eights, fours, packed_fours, stored
from twinfer.runtime.ops.isa.short import channels_s8, channels_s16
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

#: Most bytes of scratch for the rows that all windows of a row see.
MOST_BAND = 1024


def lower_s8(node: Node, target: Target) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel."""
    layer = convolution_of(node)
    tile = tile_of(layer, BLOCK_S8)
    channels = channels_s8(layer.node, layer.rows, layer.bias)
    if call := _by_bands(layer, channels, tile["blocks"]):
        return call
    numbers = {**tile, "in_zero": node.input(0).zero}
    params: dict[str, Param] = {"window": layer.window.params, **numbers, "end": channels.end}
    packed = fours_of(channels)
    stored = Weights(rows=len(packed), head=4 * FOUR, tail=5 * FOUR)
    inputs, scratch = (node.input(0), weights(packed, FOURS)), 2 * BLOCK_S8 * tile["blocks"]
    return layer.call("tw_conv2d_mve_s8", params, inputs, scratch, PIXELS, stored)


def _by_bands(layer: Convolution, c: Channels, blocks: int) -> Call | None:
    """The call that copies the rows of all windows at once; None for single pixels, and if it takes much memory."""
    g, x = layer.window, layer.node.input(0)
    step, lanes = g.k_h * g.in_c, BLOCK_S8 // g.in_c * g.in_c
    columns = max(g.pad_w + g.in_w, (g.out_w - 1) * g.stride_w + g.k_w)
    reach = max(columns * step, (g.out_w - 1) * g.stride_w * step + BLOCK_S8 * blocks)
    band = -(-reach // BLOCK_S8) * BLOCK_S8
    scratch = band * (1 + g.out_w % 2)
    at = np.arange(max(lanes, 1)) // g.in_c * step + np.arange(max(lanes, 1)) % g.in_c
    if g.k_h * g.k_w == 1 or g.out_w == 1 or scratch > MOST_BAND:  # one window of a row shares nothing
        return None
    if (g.in_c > BLOCK_S8 and g.in_c % BLOCK_S8) or at.max() > 255:
        return None
    taps = c.weights.reshape(g.out_c, g.k_h, g.k_w, g.in_c).transpose(0, 2, 1, 3).reshape(g.out_c, -1)
    packed = fours_of(c._replace(weights=taps))
    numbers = {"blocks": blocks, "in_zero": x.zero, "band": band, "lanes": lanes}
    params: dict[str, Param] = {"window": g.params, "end": c.end, **numbers}
    inputs = (x, weights(packed, FOURS), index(np.resize(at, BLOCK_S8).astype(np.uint8)))
    stored = Weights(rows=len(packed), head=4 * FOUR, tail=5 * FOUR)
    return layer.call("tw_conv2d_band_mve_s8", params, inputs, scratch, PIXELS, stored)


def tile_of(layer: Convolution, block: int) -> dict[str, int]:
    """The params ``blocks`` and ``direct`` for products of ``block`` elements; Declined if rows of taps have gaps."""
    g, depth = layer.window, layer.rows.shape[1]
    accept(g.k_w == 1 or g.dilation_w == 1, "the window is dilated along its rows")
    return {"blocks": -(-depth // block), "direct": int(g.pointwise and g.in_c >= block // 2)}


def fours_of(c: Channels) -> Array:
    """Channels as mve_tile.h describes them, int32 [out / 4, words]."""
    at = eights(len(c.weights))
    c = c._replace(weights=c.weights[at], bias=c.bias[at], mult=c.mult[at], shift=c.shift[at])
    starts, mult = (padded(v, FOUR).reshape(-1, FOUR) for v in (c.bias, c.mult))
    shift = padded(c.shift.astype(np.int8), FOUR).view("<i4")[:, None]
    return np.concatenate([starts, fours(c.weights, BLOCK_S8), mult, shift], 1).astype(np.int32)


def lower_s16(node: Node, target: Target) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel."""
    layer = convolution_of(node)
    tile = tile_of(layer, BLOCK_S16)
    c = channels_s16(layer.node, layer.rows)
    numbers = {**tile, "chunk": BLOCK_S16 * c.chunk(BLOCK_S16)}
    params: dict[str, Param] = {"window": layer.window.params, "limits": c.limits, **numbers}
    packed = packed_fours(c)
    inputs, scratch = (node.input(0), weights(packed, FOURS)), 4 * BLOCK_S16 * tile["blocks"]
    return layer.call("tw_conv2d_mve_s16", params, inputs, scratch, PIXELS, stored(packed))


def _packed(parts: Sequence[Channels]) -> Constant:
    """The fours of all parts, one after the other."""
    return weights(np.concatenate([fours_of(channels).reshape(-1) for channels in parts]), FOURS)


def _scratch(depth: int) -> int:
    """The bytes of two columns."""
    return PIXELS * BLOCK_S8 * -(-depth // BLOCK_S8)


def lower_groups(node: Node, target: Target) -> Call:
    """The call of a CONV_2D with groups."""
    layer, groups = groups_of(node)
    out, depth = groups[0].weights.shape
    blocks = -(-depth // BLOCK_S8)
    sizes = {"blocks": blocks, "in_zero": node.input(0).zero, "bytes": layer.weights.shape[3], "out": out}
    params: dict[str, Param] = {"window": layer.window.params, "end": groups[0].end, **sizes}
    inputs = (node.input(0), _packed(groups))
    kernel, scratch = "tw_conv2d_groups_mve_s8", _scratch(depth)
    return layer.call(kernel, params, inputs, scratch, PIXELS)


def lower_transposed(node: Node, target: Target) -> Call:
    """The call of a TRANSPOSE_CONV."""
    layer, x = phases_of(node), node.input(2)
    params: dict[str, Param] = {"window": layer.window.params, "end": layer.channels[0].end, "in_zero": x.zero}
    inputs, kernel, scratch = (x, _packed(layer.channels)), "tw_transpose_conv_mve_s8", _scratch(layer.depth)
    return Call(kernel, params, inputs, (node.output,), scratch, macs=layer.macs)


def lower_groups_s16(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer, groups = groups_s16(node)
    out, depth = groups[0].weights.shape
    blocks = -(-depth // BLOCK_S16)
    sizes = {"blocks": blocks, "bytes": 2 * layer.weights.shape[3], "out": out}
    params: dict[str, Param] = {"window": layer.window.params, "limits": groups[0].limits, **sizes}
    packed = np.concatenate([packed_fours(channels) for channels in groups])
    inputs = (node.input(0), weights(packed, FOURS))
    kernel, scratch = "tw_conv2d_groups_mve_s16", 4 * BLOCK_S16 * blocks
    return layer.call(kernel, params, inputs, scratch, PIXELS)


def lower_transposed_s16(node: Node, target: Target) -> Call:
    """The call of a TRANSPOSE_CONV."""
    layer = phases_s16(node)
    params: dict[str, Param] = {"window": layer.window.params, "limits": layer.channels[0].limits}
    packed = np.concatenate([packed_fours(channels).reshape(-1) for channels in layer.channels])
    inputs, scratch = (node.input(2), weights(packed, FOURS)), 4 * BLOCK_S16 * -(-layer.depth // BLOCK_S16)
    return Call("tw_transpose_conv_mve_s16", params, inputs, (node.output,), scratch, macs=layer.macs)


VARIANTS = (
    Variant("mve", ("CONV_2D",), frozenset({"mve"}), lower_s8, ("INT8",), ONE_CHANNEL),
    Variant("mve", ("CONV_2D",), frozenset({"mve"}), lower_groups, ("INT8",)),
    Variant("mve", ("TRANSPOSE_CONV",), frozenset({"mve"}), lower_transposed),
    Variant("mve", ("CONV_2D",), frozenset({"mve"}), lower_groups_s16, ("INT16",)),
    Variant("mve", ("CONV_2D",), frozenset({"mve"}), lower_s16, ("INT16",), ONE_CHANNEL),
    Variant("mve", ("TRANSPOSE_CONV",), frozenset({"mve"}), lower_transposed_s16),
)
