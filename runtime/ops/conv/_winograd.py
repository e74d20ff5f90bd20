"""Winograd's F(2 x 2, 3 x 3) in integers: which convolutions it serves, and their weights."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._layer import Convolution, convolution_of
from twinfer.runtime.variant import accept

#: Rows and columns of outputs of a tile.
TILE = 2

#: The most that the magnitudes of a channel's weights may add up to: four times its sums over int8 inputs fit int32.
MOST = (1 << 22) - 1

#: What a row or column of taps is transformed by: twice the G of Lavin and Gray (2015).
_G = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.int32)


def winograd_of(node: Node) -> Convolution:
    """A CONV_2D of 3 x 3 taps; Declined if Winograd's does not serve it."""
    accept(node.input(1).type == "INT8", "its weights are packed, and would take sixteen bits")
    layer = convolution_of(node)
    g = layer.window
    accept(layer.groups == 1, f"it has {layer.groups} groups")
    accept((g.k_h, g.k_w) == (3, 3), f"its window is {g.k_h} x {g.k_w}, not 3 x 3")
    accept((g.stride_h, g.stride_w) == (1, 1) and not g.dilated, "its windows have strides, or its taps gaps")
    most = int(np.abs(layer.rows.astype(np.int64)).sum(1).max())
    accept(most <= MOST, f"the weights of a channel add up to {most}: four times its sums do not fit 32 bits")
    return layer


def transformed(w: Array) -> Array:
    """Weights int8 [out, 3, 3, in] as int16 [out, 4, 4, in]: at most 9 * 128."""
    return np.asarray(np.einsum("ia,oabc,jb->oijc", _G, w.astype(np.int32), _G).astype(np.int16))
