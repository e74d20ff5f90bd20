"""CONV_2D of int16 and int8 on the DSP extension: kernels_c/conv/conv2d_dsp_s16.h."""

from __future__ import annotations

from twinfer.runtime.constant import per_channel, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._layer import ONE_CHANNEL, convolution_of
from twinfer.runtime.ops.core.packing import ENDS, PAIRS
from twinfer.runtime.ops.isa.dsp import PIXELS, pairs_s16
from twinfer.runtime.ops.isa.short import channels_s16
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel."""
    layer = convolution_of(node)
    c = channels_s16(layer.node, layer.rows)
    packed, ends = pairs_s16(c)
    words = packed.shape[1]
    params = {"window": layer.window.params, "words": words, "chunk": 2 * c.chunk(4), "limits": c.limits}
    inputs = (node.input(0), weights(packed, PAIRS), per_channel(ends, ENDS))
    scratch = 4 * (PIXELS + 1) * words
    return Call(
        "tw_conv2d_dsp_s16",
        params,
        inputs,
        (node.output,),
        scratch,
        macs=layer.macs,
        weights=Weights(),
        rows=layer.window.by_rows(PIXELS),
    )


VARIANT = Variant("dsp", ("CONV_2D",), frozenset({"dsp"}), lower, ("INT16",), ONE_CHANNEL)
