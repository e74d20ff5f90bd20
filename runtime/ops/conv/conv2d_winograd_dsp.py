"""CONV_2D of int8 by Winograd's F(2 x 2, 3 x 3) on the DSP extension: kernels_c/conv/conv2d_winograd_dsp.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import per_channel, weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._winograd import TILE, transformed, winograd_of
from twinfer.runtime.ops.conv.conv2d_dsp import ends_of
from twinfer.runtime.ops.core.packing import ENDS, padded
from twinfer.runtime.ops.isa.short import channels_s8
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

#: Tiles and columns of a panel: TW_WINOGRAD_TILES, TW_WINOGRAD_COLUMNS.
TILES, COLUMNS = 3, 8

#: How many times as many outputs as there are tiles may compute: one takes 0.5 to 0.65 of conv2d_dsp's instructions.
MOST = 1.5

#: The layout of weights; channels 0, 2, 1, 3 of every four.
LAYOUT = "transformed, packed [out / 2][4 columns][rows 1, 2, 0, 3][in / 2][2][2]"


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = winograd_of(node)
    g, channels = layer.window, channels_s8(layer.node, layer.rows, layer.bias)
    accept(g.in_c >= 4, f"it has {g.in_c} input channels, fewer than are multiplied at once")
    computed = -(-g.batches * -(-g.out_h // TILE) * -(-g.out_w // TILE) // TILES) * TILES * TILE * TILE
    accept(computed <= MOST * g.pixels, f"tiles compute {computed} outputs for {g.pixels}")
    c4 = -(-g.in_c // 4) * 4
    params: dict[str, Param] = {"window": g.params, "end": channels.end, "c4": c4, "in_zero": node.input(0).zero}
    inputs = (node.input(0), weights(_packed(channels.weights, g.in_c), LAYOUT), per_channel(ends_of(channels), ENDS))
    scratch = 32 * TILES * c4 + 4 * COLUMNS * g.in_c + 4
    rows = g.by_rows(TILE * TILE * TILES, tall=TILE)
    kernel, outputs = "tw_conv2d_winograd_dsp_s8", (layer.node.output,)
    return Call(kernel, params, inputs, outputs, scratch, macs=layer.macs, rows=rows)


def _packed(w: Array, in_c: int) -> Array:
    """Weights int8 [out, 9 * in_c] as words."""
    u = transformed(w.reshape(-1, 3, 3, in_c))[:, [1, 2, 0, 3]].transpose(0, 2, 1, 3)
    u = padded(padded(u, 4, 3), 2).reshape(-1, 2, 16, -(-in_c // 4), 4)[..., [0, 2, 1, 3]]
    return np.ascontiguousarray(u.reshape(len(u), 2, 16, -1, 2).transpose(0, 2, 3, 1, 4), "<i2").view("<i4")


VARIANT = Variant("winograd_dsp", ("CONV_2D",), frozenset({"dsp"}), lower, ("INT8",), larger=True)
