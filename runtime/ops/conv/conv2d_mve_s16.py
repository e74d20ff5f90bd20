"""CONV_2D of int16 and int8 on Helium: kernels_c/conv/conv2d_mve_s16.h."""

from __future__ import annotations

from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._layer import ONE_CHANNEL, convolution_of
from twinfer.runtime.ops.core.packing import FOURS
from twinfer.runtime.ops.isa.mve import BLOCK_S16
from twinfer.runtime.ops.isa.mve_s16 import packed_fours, stored
from twinfer.runtime.ops.isa.short import channels_s16
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel."""
    layer = convolution_of(node)
    g, w = layer.window, layer.rows
    accept(g.k_w == 1 or g.dilation_w == 1, "the window is dilated along its rows")
    c = channels_s16(layer.node, w)
    blocks, direct = -(-w.shape[1] // BLOCK_S16), int(g.pointwise and g.in_c >= BLOCK_S16 // 2)
    tile = {"blocks": blocks, "direct": direct, "chunk": BLOCK_S16 * c.chunk(BLOCK_S16)}
    params, packed, scratch = {"window": g.params, "limits": c.limits, **tile}, packed_fours(c), 4 * BLOCK_S16 * blocks
    inputs = (node.input(0), weights(packed, FOURS))
    return Call("tw_conv2d_mve_s16", params, inputs, (node.output,), scratch, macs=layer.macs, weights=stored(packed))


VARIANT = Variant("mve", ("CONV_2D",), frozenset({"mve"}), lower, ("INT16",), ONE_CHANNEL)
