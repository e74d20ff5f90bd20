"""CONV_2D of int8 on Helium: kernels_c/conv/conv2d_mve.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._layer import ONE_CHANNEL, Convolution, convolution_of
from twinfer.runtime.ops.core.packing import FOURS, padded
from twinfer.runtime.ops.core.requantize import Channels
from twinfer.runtime.ops.isa.mve import BLOCK_S8, FOUR, PIXELS, fours
from twinfer.runtime.ops.isa.short import channels_s8
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel."""
    layer = convolution_of(node)
    tile = tile_of(layer, BLOCK_S8)
    channels = channels_s8(layer.node, layer.rows, layer.bias)
    params: dict[str, Param] = {
        "window": layer.window.params,
        **tile,
        "in_zero": node.input(0).zero,
        "end": channels.end,
    }
    packed = fours_of(channels)
    stored = Weights(rows=len(packed), head=4 * FOUR, tail=5 * FOUR)
    inputs, scratch = (node.input(0), weights(packed, FOURS)), 2 * BLOCK_S8 * tile["blocks"]
    return Call(
        "tw_conv2d_mve_s8",
        params,
        inputs,
        (node.output,),
        scratch,
        macs=layer.macs,
        weights=stored,
        rows=layer.window.by_rows(PIXELS),
    )


def tile_of(layer: Convolution, block: int) -> dict[str, int]:
    """The params ``blocks`` and ``direct`` for products of ``block`` elements; Declined if rows of taps have gaps."""
    g, depth = layer.window, layer.rows.shape[1]
    accept(g.k_w == 1 or g.dilation_w == 1, "the window is dilated along its rows")
    return {"blocks": -(-depth // block), "direct": int(g.pointwise and g.in_c >= block // 2)}


def fours_of(c: Channels) -> Array:
    """Channels as mve_tile.h describes them, int32 [out / 4, words]."""
    starts, mult = (padded(v, FOUR).reshape(-1, FOUR) for v in (c.bias, c.mult))
    shift = padded(c.shift.astype(np.int8), FOUR).view("<i4")[:, None]
    return np.concatenate([starts, fours(c.weights, BLOCK_S8), mult, shift], 1).astype(np.int32)


VARIANT = Variant("mve", ("CONV_2D",), frozenset({"mve"}), lower, ("INT8",), ONE_CHANNEL)
