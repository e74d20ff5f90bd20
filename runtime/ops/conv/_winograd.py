"""Winograd's F(2 x 2, 3 x 3) and F(2, 3) in integers: kernels_c/conv/winograd.h and winograd_line.h."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twinfer.runtime.constant import per_channel, weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._layer import Convolution, convolution_of
from twinfer.runtime.ops.core.packing import ENDS
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.ops.isa.short import channels_s8, ends_of
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.variant import accept

#: Tiles of a panel and the columns of inputs under them: TW_WINOGRAD_TILES. Rows and columns of outputs of a tile.
TILES, COLUMNS, TILE = 3, 8, 2

#: How many times as many outputs as there are tiles may compute: one takes 0.45 to 0.65 of the usual instructions, of
#: taps along a line 0.65 to 0.75.
MOST, MOST_OF_LINE = 1.5, 1.3

#: The most that the magnitudes of a channel's weights may add up to: four times its sums over int8 inputs fit int32.
MOST_WEIGHTS = (1 << 22) - 1

#: The layout of weights, before kernels order the channels of their inputs.
LAYOUT = "transformed, packed [out / 2][4 columns][rows 1, 2, 0, 3][in][2]"
LAYOUT_OF_LINE = "transformed, packed [out / 2][4 places: 1, 2, 0, 3][in][2]"

#: What a row or column of taps is transformed by: twice the G of Lavin and Gray (2015).
_G = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.int32)


def call_of(kind: str, node: Node, step: int, size: int, pack: Callable[[Array], Array]) -> Call:
    """The call of the kernel of that kind, which takes ``step`` input channels at once, and transforms inputs into
    ``size`` bytes each; Declined if Winograd's does not serve the node.

    ``pack`` orders its weights, int16 [out, 16, in] or, of taps along a line, [out, 4, in].
    """
    layer = _layer(node)
    g, channels = layer.window, channels_s8(layer.node, layer.rows, layer.bias)
    taps = channels.weights.reshape(g.out_c, g.k_h, g.k_w, g.in_c)
    if g.k_h == g.k_w:
        depth, kernel, layout = -(-g.in_c // step) * step, f"tw_conv2d_winograd_{kind}_s8", LAYOUT
        u = transformed(taps)[:, [1, 2, 0, 3]].transpose(0, 2, 1, 3).reshape(g.out_c, 16, g.in_c)
        scratch = 4 * COLUMNS * g.in_c + 4 + 16 * TILES * depth * size
        rows = g.by_rows(TILE * TILE * TILES, tall=TILE)
    else:
        accept(g.in_c % step == 0, f"it has {g.in_c} input channels, no multiple of {step}")
        depth, kernel, layout = g.in_c, f"tw_conv2d_winograd_line_{kind}_s8", LAYOUT_OF_LINE
        u = transformed_line(taps.reshape(g.out_c, 3, g.in_c))[:, [1, 2, 0, 3]]
        scratch = -(-g.in_c // 4) * 4 + 4 * TILES * depth * size
        rows = g.by_rows(TILE * TILES, tall=TILE * g.dilation_h if g.k_h > 1 else 1)
    params: dict[str, Param] = {"window": g.params, "end": channels.end, "depth": depth, "in_zero": node.input(0).zero}
    inputs = (layer.node.input(0), weights(pack(u), layout), per_channel(ends_of(channels), ENDS))
    return Call(kernel, params, inputs, (layer.node.output,), scratch, macs=layer.macs, rows=rows)


def _layer(node: Node) -> Convolution:
    accept(node.input(1).type == "INT8", "its weights are packed, and would take sixteen bits")
    layer = convolution_of(node)
    g, square = layer.window, layer.window.k_h == layer.window.k_w
    accept(layer.groups == 1, f"it has {layer.groups} groups")
    accept((g.k_h, g.k_w) in ((3, 3), (3, 1), (1, 3)), f"its window is {g.k_h} x {g.k_w}, not 3 x 3, 3 x 1 or 1 x 3")
    accept((g.stride_h, g.stride_w) == (1, 1), "its windows have strides")
    accept(not square or not g.dilated, "its taps have gaps")
    accept((g.k_h > 1 or g.in_h == g.out_h) and (g.k_w > 1 or g.in_w == g.out_w), "it has a border beside its taps")
    accept(g.in_c >= 4, f"it has {g.in_c} input channels, fewer than 4")
    computed = _tiles(g) * (TILE * TILE if square else TILE)
    most = MOST if square else MOST_OF_LINE
    accept(computed <= most * g.pixels, f"tiles compute {computed} outputs for {g.pixels}")
    reach = int(np.abs(layer.rows.astype(np.int64)).sum(1).max())
    accept(reach <= MOST_WEIGHTS, f"the weights of a channel add up to {reach}: four times its sums do not fit 32 bits")
    return layer


def _tiles(g: Window) -> int:
    """Tiles of whole panels."""
    axes = ((g.out_h, g.k_h, g.dilation_h), (g.out_w, g.k_w, g.dilation_w))
    down, across = (
        sum(-(-len(range(i, out, gap)) // TILE) for i in range(gap)) if k > 1 else out for out, k, gap in axes
    )
    return -(-g.batches * down * across // TILES) * TILES


def transformed(w: Array) -> Array:
    """Weights int8 [out, 3, 3, in] as int16 [out, 4, 4, in]: at most 9 * 128."""
    return np.asarray(np.einsum("ia,oabc,jb->oijc", _G, w.astype(np.int32), _G).astype(np.int16))


def transformed_line(w: Array) -> Array:
    """Weights int8 [out, 3, in] as int16 [out, 4, in]: at most 3 * 128."""
    return np.asarray(np.einsum("ia,oac->oic", _G, w.astype(np.int32)).astype(np.int16))
