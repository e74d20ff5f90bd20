"""DEPTHWISE_CONV_2D of int16 and int8 on Helium: kernels_c/depthwise/depthwise_conv2d_mve_s16.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._layer import convolution_of
from twinfer.runtime.ops.core.packing import BLOCKS, padded
from twinfer.runtime.ops.core.requantize_s16 import Channels
from twinfer.runtime.ops.depthwise.depthwise_conv2d_mve import check_rows
from twinfer.runtime.ops.isa.short import channels_s16
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

#: Channels per vector of int16, and the order in which their sums lie: even ones, then odd ones.
LANES = 8
ORDER = np.array([0, 2, 4, 6, 1, 3, 5, 7])


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = convolution_of(node)
    g = layer.window
    row = 2 * LANES * max(g.pad_w + g.in_w, (g.out_w - 1) * g.stride_w + g.k_w)
    check_rows(g, row)
    c = channels_s16(layer.node, layer.weights.reshape(-1, g.out_c).T)
    accept(c.fit, "sums do not fit 32 bits")
    params, eights = {"window": g.params, "limits": c.limits}, _eights(c)
    inputs, stored = (node.input(0), weights(eights, BLOCKS)), Weights(rows=len(eights), head=2 * 4 * LANES)
    kernel, scratch = "tw_depthwise_conv2d_mve_s16", g.k_h * row
    return Call(kernel, params, inputs, (node.output,), scratch, macs=layer.macs, weights=stored, rows=g.by_rows())


def _eights(c: Channels) -> Array:
    """Constants per eight channels, int8 [blocks, bytes]: depthwise_conv2d_mve_s16.h."""
    bias, mult = (padded(v, LANES).reshape(-1, LANES)[:, ORDER] for v in (c.bias, c.mult))
    taps = padded(c.weights, LANES).reshape(len(bias), LANES, -1).transpose(0, 2, 1)
    parts = [np.ascontiguousarray(v).reshape(len(bias), -1).view(np.int8) for v in (bias, mult, taps)]
    return np.concatenate(parts, 1)


VARIANT = Variant("mve", ("DEPTHWISE_CONV_2D",), frozenset({"mve"}), lower, ("INT16",))
