"""CONV_2D of int8 by Winograd's F(4 x 4, 3 x 3) over 16 lanes: kernels_c/conv/conv2d_winograd_wide.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._bands import PAIRED
from twinfer.runtime.ops.conv._layer import convolution_of
from twinfer.runtime.ops.conv._sparse import sparse_of
from twinfer.runtime.ops.core.channels import epilogue, fold_zero, lane_channels
from twinfer.runtime.ops.core.packing import LANES, padded
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Declined, Variant, accept

#: Input channels to a multiple of which depth is filled up; rows and columns of outputs of a tile; places of a tile;
#: tiles whose sums are computed at once on AVX2; bytes of a panel.
STEP, TILE, PLACES, TILES, PANEL = 8, 4, 36, 6, 1 << 14

#: Tiles at the end of a panel are computed four at once, too, and how many times as many outputs as there are so may
#: be computed. On Zen 4 with AVX2, of the time that conv2d_avx2.h takes: 0.28 to 0.5 where there are no others, of 8
#: channels 0.65 to 0.7; 0.58 to 0.8 for 1.8 times as many, 0.74 to 1.2 for 2.6 times.
FEW, MOST = 4, 2.0

#: VNNI multiplies four bytes at once. There, layers have at least so many channels, compute at most so many times as
#: many outputs as there are, and have weights that fit a cache. On Zen 4, of the time that conv2d_wide.h takes: 0.57 to
#: 0.88; of 24 channels 0.9 to 1.03; where the weights of a model take 28 MB 1.05 to 1.1.
VNNI_CHANNELS, VNNI_MOST, VNNI_WEIGHTS = 32, 1.35, 2 << 20

#: Bytes of scratch memory that a tile takes beside the panel: sums, and where its outputs lie.
OWN = 4 * PLACES * LANES + 32

LAYOUT = "transformed, packed [out / 16][6 columns][6][in / 2][16][2]"

#: The most that the magnitudes of a channel's weights may add up to: 64 times its sums over int8 inputs fit int32.
MOST_WEIGHTS = (1 << 18) - 1

#: What a row or column of taps is transformed by.
_G = np.array([[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 12]], np.int32)


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    accept(node.input(1).type == "INT8", "its weights are packed, and would take sixteen bits")
    layer = convolution_of(node)
    g, x = layer.window, node.input(0)
    accept(layer.groups == 1, f"it has {layer.groups} groups")
    accept((g.k_h, g.k_w) == (3, 3), f"its window is {g.k_h} x {g.k_w}, not 3 x 3")
    accept((g.stride_h, g.stride_w) == (1, 1) and not g.dilated, "its windows have strides, or its taps gaps")
    vnni = target.has("avx512_vnni")
    least, most = (VNNI_CHANNELS, VNNI_MOST) if vnni else (STEP, MOST)
    accept(g.in_c >= least, f"it has {g.in_c} input channels, fewer than {least}")
    accept(g.out_c > PAIRED, f"it has {g.out_c} output channels: of up to {PAIRED}, two pixels share a vector")
    depth, whole = (-(-g.in_c // step) * step for step in (STEP, 2 * STEP))
    count = g.batches * -(-g.out_h // TILE) * -(-g.out_w // TILE)
    computed = -(-count // FEW) * FEW * TILE * TILE
    accept(computed <= most * g.pixels, f"tiles compute {computed} outputs for {g.pixels}")
    if vnni:
        accept(g.out_c >= least, f"it has {g.out_c} output channels, fewer than {least}")
        accept(2 * PLACES * depth * g.out_c <= VNNI_WEIGHTS, "its weights, transformed, would not fit a cache")
        accept(not _skips(node), "blocks of its weights are zero, and are skipped")
    reach = int(np.abs(layer.rows.astype(np.int64)).sum(1).max())
    accept(reach <= MOST_WEIGHTS, f"the weights of a channel add up to {reach}: 64 times its sums do not fit 32 bits")
    tiles = TILES * max(1, min(PANEL // (2 * PLACES * depth * TILES), -(-count // TILES)))
    ends, fast = lane_channels(layer.node, fold_zero(layer.rows, layer.bias, x.zero))
    params: dict[str, Param] = {
        "window": g.params, "end": epilogue(node), "depth": depth, "tiles": tiles, "in_zero": x.zero, "fast": fast,
    }  # fmt: skip
    packed = weights(_packed(transformed(layer.rows.reshape(-1, 3, 3, g.in_c))), LAYOUT)
    scratch = (2 * PLACES * whole + OWN) * tiles + 6 * (-(-g.out_w // TILE) * TILE + 2) * g.in_c + 80
    rows = g.by_rows(TILE * TILE, tall=TILE)
    inputs = (x, packed, *ends)
    return Call("tw_conv2d_winograd_wide_s8", params, inputs, (node.output,), scratch, macs=layer.macs, rows=rows)


def _skips(node: Node) -> bool:
    """Whether the kernel that skips blocks of zeros takes the node."""
    try:
        sparse_of(node, LANES)
    except Declined:
        return False
    return True


def transformed(w: Array) -> Array:
    """Weights int8 [out, 3, 3, in] as int16 [out, 6, 6, in]: at most 12 * 12 * 128."""
    return np.asarray(np.einsum("ia,oabc,jb->oijc", _G, w.astype(np.int32), _G).astype(np.int16))


def _packed(u: Array) -> Array:
    w = u.transpose(0, 2, 1, 3).reshape(len(u), PLACES, -1)
    w = padded(padded(w, STEP, 2), LANES)
    return np.ascontiguousarray(w.reshape(-1, LANES, PLACES, w.shape[2] // 2, 2).transpose(0, 2, 3, 1, 4), "<i2")


#: In place of conv2d_wide.h where that multiplies int16, and some of it where VNNI multiplies bytes, four at once.
VARIANTS = (
    Variant("winograd_wide", ("CONV_2D",), frozenset({"avx512_vnni"}), lower, ("INT8",), larger=2),
    Variant("winograd_wide", ("CONV_2D",), frozenset({"avx2"}), lower, ("INT8",), larger=2),
    Variant("winograd_wide", ("CONV_2D",), frozenset({"neon"}), lower, ("INT8",), larger=2),
)
