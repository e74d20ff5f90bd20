"""CONV_2D of int8 on the DSP extension: kernels_c/conv/conv2d_dsp.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import per_channel, weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._layer import ONE_CHANNEL, convolution_of
from twinfer.runtime.ops.core.packing import ENDS, PAIRS, padded
from twinfer.runtime.ops.core.requantize import Channels
from twinfer.runtime.ops.isa.dsp import PIXELS, pairs
from twinfer.runtime.ops.isa.short import channels_s8
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel."""
    layer = convolution_of(node)
    channels = channels_s8(layer.node, layer.rows, layer.bias)
    words, chunk = pairs(channels.weights, 2)
    k4 = 2 * words.shape[1]
    accept(chunk >= words.shape[1], "the sums over a window do not fit half a word")
    params = {"window": layer.window.params, "k4": k4, "in_zero": node.input(0).zero, "end": channels.end}
    inputs = (node.input(0), weights(words, PAIRS), per_channel(ends_of(channels), ENDS))
    scratch, stored = (2 * PIXELS + 1) * k4, Weights(halves=True)
    return Call(
        "tw_conv2d_dsp_s8",
        params,
        inputs,
        (node.output,),
        scratch,
        macs=layer.macs,
        weights=stored,
        rows=layer.window.by_rows(PIXELS),
    )


def ends_of(c: Channels) -> Array:
    """int32 [out / 2, 5], TW_DSP_ENDS: both biases, doubled, both multipliers, both right shifts in the low bytes."""
    starts, mult, shift = (padded(a, 2).reshape(-1, 2) for a in (2 * c.bias, c.mult, -c.shift.astype(np.int32)))
    shift = np.maximum(shift, 1)
    return np.column_stack([starts, mult, shift[:, 0] | shift[:, 1] << 8]).astype(np.int32)


VARIANT = Variant("dsp", ("CONV_2D",), frozenset({"dsp"}), lower, ("INT8",), ONE_CHANNEL)
