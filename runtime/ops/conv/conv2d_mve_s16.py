"""CONV_2D of int16 and int8 on Helium: kernels_c/conv/conv2d_mve_s16.h."""

from __future__ import annotations

from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._layer import ONE_CHANNEL, convolution_of
from twinfer.runtime.ops.conv.conv2d_mve import tile_of
from twinfer.runtime.ops.core.packing import FOURS
from twinfer.runtime.ops.isa.mve import BLOCK_S16, PIXELS
from twinfer.runtime.ops.isa.mve_s16 import packed_fours, stored
from twinfer.runtime.ops.isa.short import channels_s16
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel."""
    layer = convolution_of(node)
    tile = tile_of(layer, BLOCK_S16)
    c = channels_s16(layer.node, layer.rows)
    numbers = {**tile, "chunk": BLOCK_S16 * c.chunk(BLOCK_S16)}
    params: dict[str, Param] = {"window": layer.window.params, "limits": c.limits, **numbers}
    packed = packed_fours(c)
    inputs, scratch = (node.input(0), weights(packed, FOURS)), 4 * BLOCK_S16 * tile["blocks"]
    return Call(
        "tw_conv2d_mve_s16",
        params,
        inputs,
        (node.output,),
        scratch,
        macs=layer.macs,
        weights=stored(packed),
        rows=layer.window.by_rows(PIXELS),
    )


VARIANT = Variant("mve", ("CONV_2D",), frozenset({"mve"}), lower, ("INT16",), ONE_CHANNEL)
