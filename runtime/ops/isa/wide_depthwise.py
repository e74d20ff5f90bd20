"""DEPTHWISE_CONV_2D over 16 lanes: the constants as kernels_c/conv/depthwise_conv2d.h reads them."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import index, weights
from twinfer.runtime.fixed_point import wrap32
from twinfer.runtime.graph import Node
from twinfer.runtime.op import Array, Call, Weights
from twinfer.runtime.ops.core.channels import epilogue, lane_channels
from twinfer.runtime.ops.core.packing import LANES_S16, padded
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.params import Param

#: Rows or columns of output that are worth a table of their borders; a short file may ask for many more.
LONGEST = 1 << 16


def _inside(out: int, stride: int, pad: int, dilation: int, kernel: int, extent: int) -> list[tuple[int, int]]:
    """For every output along one axis: the first tap inside the image and the end of those inside."""
    found = []
    for o in range(out):
        taps = [k for k in range(kernel) if 0 <= o * stride - pad + k * dilation < extent]
        found.append((taps[0], taps[-1] + 1) if taps else (0, 0))
    return found


def _classes(inside: list[tuple[int, int]]) -> tuple[Array, list[tuple[int, int]]]:
    """The taps inside with their border class [out][3], and the distinct classes."""
    distinct = list(dict.fromkeys(inside))
    return np.array([(*pair, distinct.index(pair)) for pair in inside], np.int32), distinct


def lower(node: Node, g: Window, w: Array, bias: Array, macs: int) -> Call:
    """The call for constant weights int8 [1, k_h, k_w, channels] and bias int32 [channels], multiplier 1."""
    x, y = node.input(0), node.output
    rows, row_classes = _classes(_inside(g.out_h, g.stride_h, g.pad_h, g.dilation_h, g.k_h, g.in_h))
    columns, column_classes = _classes(_inside(g.out_w, g.stride_w, g.pad_w, g.dilation_w, g.k_w, g.in_w))
    taps = w[0].astype(np.int64)
    sums = np.array([[taps[r0:r1, c0:c1].sum((0, 1)) for c0, c1 in column_classes] for r0, r1 in row_classes])
    folded = wrap32(bias.astype(np.int64) - x.zero * sums.reshape(-1, g.out_c)).astype(np.int32)
    lanes = padded(w[0].astype(np.int32) & 0xFFFF, axis=2)
    tile = {"padded": lanes.shape[2], "column_classes": len(column_classes)}
    params: dict[str, Param] = {"window": g.params, "end": epilogue(node), **tile}
    inputs = (x, weights(lanes, LANES_S16), *lane_channels(node, folded), index(rows), index(columns))
    return Call("tw_depthwise_conv2d_wide_s8", params, inputs, (y,), macs=macs, weights=Weights())
