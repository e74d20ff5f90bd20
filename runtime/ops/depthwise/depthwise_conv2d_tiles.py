"""DEPTHWISE_CONV_2D for 32 registers: kernels_c/depthwise/depthwise_conv2d_tiles.h."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._layer import check_one_to_one, convolution_of
from twinfer.runtime.ops.isa.tiles import ends_for
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant

#: Instructions that a channel takes in every call before its first output.
CHANNEL = 130


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights and as many output channels as input channels."""
    layer = convolution_of(node, any_zero=True)
    g = layer.window
    check_one_to_one(g)
    channels, ends = ends_for(layer.node, layer.taps.reshape(-1, g.out_c).T, layer.bias)
    inputs = (node.input(0), weights(np.ascontiguousarray(channels.weights.T)), *ends.constants())
    params: dict[str, Param] = {"window": g.params, "in_zero": node.input(0).zero, **ends.params}
    behind = (g.out_w - 1) * g.stride_w + 3 - g.pad_w - g.in_w
    nine = g.k_h == g.k_w == 3 and not g.dilated and g.stride_w <= 2 and g.pad_w <= 1 and behind <= 1
    suffix, stored = layer.stored
    kernel = f"tw_depthwise_conv2d{'_nine' if nine else ''}{suffix}_tiles_s8"
    rows = g.by_rows(setup=CHANNEL * g.out_c)._replace(planes=g.out_c)
    return replace(layer.call(kernel, params, inputs, 0, 1, stored), rows=rows)


VARIANT = Variant("tiles", ("DEPTHWISE_CONV_2D",), frozenset({"tiles"}), lower, ("INT8",))
