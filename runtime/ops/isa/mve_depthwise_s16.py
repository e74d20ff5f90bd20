"""DEPTHWISE_CONV_2D of int16 and int8 over Helium: when depthwise_conv2d_mve_s16.h applies, and its constants."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Node
from twinfer.runtime.op import Array, Call, Weights
from twinfer.runtime.ops.core.packing import BLOCKS, padded
from twinfer.runtime.ops.core.requantize_s16 import Channels, short_channels
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.ops.isa.mve_depthwise import MOST_SCRATCH

#: Channels of a vector of int16, and the order in which their sums lie: the even ones, then the odd ones.
LANES = 8
ORDER = np.array([0, 2, 4, 6, 1, 3, 5, 7])


def lower(node: Node, g: Window, w: Array, macs: int) -> Call | None:
    """The call for weights int8 [1, k_h, k_w, channels]; None where it does not apply."""
    row = 2 * LANES * max(g.pad_w + g.in_w, (g.out_w - 1) * g.stride_w + g.k_w)
    if g.in_c != g.out_c or g.dilated or g.k_h * row > MOST_SCRATCH:
        return None
    c = short_channels(node, w.reshape(-1, g.out_c).T)
    if c is None or not c.fit:
        return None
    params = {"window": g.params, "limits": c.limits}
    eights = _eights(c)
    inputs, stored = (node.input(0), weights(eights, BLOCKS)), Weights(rows=len(eights), head=2 * 4 * LANES)
    return Call("tw_depthwise_conv2d_mve_s16", params, inputs, (node.output,), g.k_h * row, macs=macs, weights=stored)


def _eights(c: Channels) -> Array:
    """Constants of every eight channels, int8 [blocks, bytes]: depthwise_conv2d_mve_s16.h."""
    bias, mult = (padded(v, LANES).reshape(-1, LANES)[:, ORDER] for v in (c.bias, c.mult))
    taps = padded(c.weights, LANES).reshape(len(bias), LANES, -1).transpose(0, 2, 1)
    parts = [np.ascontiguousarray(v).reshape(len(bias), -1).view(np.int8) for v in (bias, mult, taps)]
    return np.concatenate(parts, 1)
