"""CONV_2D of int16 and int8 on the DSP extension: kernels_c/conv/conv2d_dsp_s16.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import bias, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._layer import ONE_CHANNEL, convolution_of
from twinfer.runtime.ops.core.packing import ENDS, PAIRS, padded
from twinfer.runtime.ops.isa.dsp import PIXELS
from twinfer.runtime.ops.isa.short import channels_s16
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel."""
    layer = convolution_of(node)
    c = channels_s16(layer.node, layer.rows)
    k = padded(padded(c.weights, 4, 1), 2, 0)
    pairs = k.reshape(len(k) // 2, 2, -1, 2).transpose(0, 2, 3, 1)
    words = k.shape[1] // 2
    ends = np.stack([padded(v, 2).reshape(-1, 2) for v in (c.bias, c.mult)], 1)
    params = {"window": layer.window.params, "words": words, "chunk": 2 * c.chunk(4), "limits": c.limits}
    packed = np.ascontiguousarray(pairs).reshape(len(pairs), -1).view("<i4")
    inputs = (node.input(0), weights(packed, PAIRS), bias(ends, ENDS))
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
