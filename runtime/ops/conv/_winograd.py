"""Winograd's F(2 x 2, 3 x 3) in integers: kernels_c/conv/winograd.h."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twinfer.runtime.constant import per_channel, weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._layer import Convolution, convolution_of
from twinfer.runtime.ops.core.packing import ENDS
from twinfer.runtime.ops.isa.short import channels_s8, ends_of
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.variant import accept

#: Tiles of a panel and the columns of inputs under them: TW_WINOGRAD_TILES. Rows and columns of outputs of a tile.
TILES, COLUMNS, TILE = 3, 8, 2

#: How many times as many outputs as there are tiles may compute: one takes 0.45 to 0.65 of the usual instructions.
MOST = 1.5

#: The most that the magnitudes of a channel's weights may add up to: four times its sums over int8 inputs fit int32.
MOST_WEIGHTS = (1 << 22) - 1

#: The layout of weights, before kernels order the channels of their inputs.
LAYOUT = "transformed, packed [out / 2][4 columns][rows 1, 2, 0, 3][in][2]"

#: What a row or column of taps is transformed by: twice the G of Lavin and Gray (2015).
_G = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.int32)


def call_of(kernel: str, node: Node, step: int, size: int, pack: Callable[[Array], Array]) -> Call:
    """The call of a kernel that takes ``step`` input channels at once, and transforms inputs into ``size`` bytes each.

    ``pack`` orders its weights, int16 [out, 16, in]. Declined if Winograd's does not serve the node.
    """
    layer = _layer(node, step)
    g, channels = layer.window, channels_s8(layer.node, layer.rows, layer.bias)
    depth = -(-g.in_c // step) * step
    params: dict[str, Param] = {"window": g.params, "end": channels.end, "depth": depth, "in_zero": node.input(0).zero}
    u = transformed(channels.weights.reshape(-1, 3, 3, g.in_c))[:, [1, 2, 0, 3]].transpose(0, 2, 1, 3)
    packed = weights(pack(u.reshape(g.out_c, 16, g.in_c)), LAYOUT)
    inputs = (layer.node.input(0), packed, per_channel(ends_of(channels), ENDS))
    scratch = 4 * COLUMNS * g.in_c + 4 + 16 * TILES * depth * size
    rows = g.by_rows(TILE * TILE * TILES, tall=TILE)
    return Call(kernel, params, inputs, (layer.node.output,), scratch, macs=layer.macs, rows=rows)


def _layer(node: Node, step: int) -> Convolution:
    accept(node.input(1).type == "INT8", "its weights are packed, and would take sixteen bits")
    layer = convolution_of(node)
    g = layer.window
    accept(layer.groups == 1, f"it has {layer.groups} groups")
    accept((g.k_h, g.k_w) == (3, 3), f"its window is {g.k_h} x {g.k_w}, not 3 x 3")
    accept((g.stride_h, g.stride_w) == (1, 1) and not g.dilated, "its windows have strides, or its taps gaps")
    accept(g.in_c >= 4, f"it has {g.in_c} input channels, fewer than 4")
    computed = -(-g.batches * -(-g.out_h // TILE) * -(-g.out_w // TILE) // TILES) * TILES * TILE * TILE
    accept(computed <= MOST * g.pixels, f"tiles compute {computed} outputs for {g.pixels}")
    most = int(np.abs(layer.rows.astype(np.int64)).sum(1).max())
    accept(most <= MOST_WEIGHTS, f"the weights of a channel add up to {most}: four times its sums do not fit 32 bits")
    return layer


def transformed(w: Array) -> Array:
    """Weights int8 [out, 3, 3, in] as int16 [out, 4, 4, in]: at most 9 * 128."""
    return np.asarray(np.einsum("ia,oabc,jb->oijc", _G, w.astype(np.int32), _G).astype(np.int16))
