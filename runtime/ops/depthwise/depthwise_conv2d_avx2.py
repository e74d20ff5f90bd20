"""DEPTHWISE_CONV_2D of int8 on AVX2 and AVX512-VNNI: kernels_c/depthwise/depthwise_conv2d_avx2.h.

With a multiplier channels are repeated first: depthwise_conv2d_times.h.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime import constant
from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._layer import Convolution, check_one_to_one, convolution_of
from twinfer.runtime.ops.core.channels import epilogue, fold_zero, lane_ends, one_rounding
from twinfer.runtime.ops.core.packing import padded
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

#: Bytes of a block, the most rows of taps, and the most blocks that take turns: TW_BLOCK, TW_RING_ROWS, TW_RING_BLOCKS.
BYTES, ROWS, BLOCKS = 64, 32, 3

#: Most bytes of a column with its padding, and of an image whose channels are repeated.
COLUMN, REPEATED = 1 << 14, 1 << 20

#: The layout of the weights, as emitted C names it.
LAYOUT = "packed [block][rows / 4][k_w][4][16][4], as bytes are unpacked"

#: The members of a window that it has of both sides.
_SIDES = ("in", "out", "k", "stride", "dilation", "pad")

#: Lane i of sums a -> the byte of a vector that it is.
UNPACKED = np.array([[16 * (i // 4) + 4 * a + i % 4 for i in range(16)] for a in range(4)]).reshape(-1)


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = convolution_of(node, any_zero=True)
    g, times = layer.window, layer.window.out_c // layer.window.in_c
    if g.in_c == 1 or times == 1:
        return _lower(layer, g)
    repeated = g._replace(in_c=g.out_c)
    values, call = g.batches * g.in_h * g.in_w * g.in_c, _lower(layer, repeated)
    accept(values * times <= REPEATED, f"its image takes {values * times} bytes with every channel {times} times")
    params: dict[str, Param] = {"all": call.params, "times": times, "values": values}
    scratch = call.scratch + -(-values * times // BYTES) * BYTES
    return replace(call, kernel="tw_depthwise_conv2d_times_s8", params=params, scratch=scratch, rows=None)


def _lower(layer: Convolution, window: Window) -> Call:
    """The call over a window with multiplier 1."""
    node = layer.node
    g, x = _upright(window), node.input(0)
    check_one_to_one(g)
    ends = lane_ends(node, g.out_c)
    taps, tile = layer.taps[0].reshape(g.k_h, g.k_w, g.out_c), _tile(g)
    rows, twice = _parts(taps)
    accept(len(rows) <= ROWS, f"the window has more than {ROWS} rows")
    numbers = {"in_zero": x.zero + 128, "fast": one_rounding(ends[1]), "fours": -(-len(rows) // 4), "twice": twice}
    params: dict[str, Param] = {"window": g.params, "end": epilogue(node), **numbers, **tile}
    bias = fold_zero(taps.reshape(-1, g.out_c).T, layer.bias, 128 + x.zero)
    mult, shift = (constant.requantize(_vectors(values, g)) for values in ends)
    inputs = (x, weights(_packed(rows, g), LAYOUT), constant.bias(_vectors(bias, g)), mult, shift)
    covered = 1 if tile["column"] else (g.k_h - 1) * g.dilation_h + 1
    scratch = covered * tile["planes"] * tile["plane"] + 2 * BYTES
    kernel, rows_of = "tw_depthwise_conv2d_avx2_s8", g.by_rows() if g == window and not tile["column"] else None
    return Call(kernel, params, inputs, (node.output,), scratch, macs=layer.macs, weights=Weights(), rows=rows_of)


def _parts(taps: Array) -> tuple[NDArray[np.int8], int]:
    """int8 weights [rows, k_w, channels] that add up to ``taps``; which rows come twice, as bits."""
    low = taps.clip(-128, 127)
    rest = taps.astype(np.int32) - low
    accept(int(rest.max()) < 128, "a weight is 255 without its zero point")
    some = np.flatnonzero(rest.any(axis=(1, 2)))
    accept(int(some.max(initial=0)) < ROWS - 1, "a row of taps that comes twice has no bit")
    return np.concatenate([low, rest[some]]).astype(np.int8), sum(1 << int(row) for row in some)


def _upright(g: Window) -> Window:
    """The windows; those along a single row as windows along a column of as many pixels, which lie alike."""
    if not g.k_h == g.in_h == g.out_h == 1:
        return g
    turned = {f"{name}_h": getattr(g, f"{name}_w") for name in _SIDES} | {f"{name}_w": 1 for name in _SIDES}
    upright = g._replace(**turned | {"pad_w": 0})
    return upright if _is_column(upright) and upright.k_h <= ROWS else g


def _is_column(g: Window) -> bool:
    """Whether image and windows have one column, which fits the first cache."""
    return g.k_w == g.in_w == g.out_w == 1 and g.pad_w == 0 and _height(g) * min(g.in_c, BYTES) <= COLUMN


def _height(g: Window) -> int:
    """Rows of the image with padding."""
    return max(g.pad_h + g.in_h, (g.out_h - 1) * g.stride_h + (g.k_h - 1) * g.dilation_h + 1)


def _tile(g: Window) -> dict[str, int]:
    """The params that say how the ring is laid out and how outputs become vectors."""
    flat, column = _is_flat(g), _is_column(g)
    planes = g.stride_w if g.out_w > 1 else 1
    width = max(g.pad_w + g.in_w, (g.out_w - 1) * g.stride_w + (g.k_w - 1) * g.dilation_w + 1)
    pitch, side = g.in_c if flat else min(g.in_c, BYTES), _height(g) if column else width
    plane = -(-(-(-side // planes) * pitch) // BYTES) * BYTES
    blocks = _turns(g) if flat else -(-g.in_c // BYTES)
    sizes = {"planes": planes, "plane": plane, "pitch": pitch, "blocks": blocks}
    return {**sizes, "flat": int(flat), "column": int(column)}


def _turns(g: Window) -> int:
    """After how many vectors the channels of pixels side by side begin anew with a vector."""
    return g.in_c // gcd(g.in_c, BYTES)


def _is_flat(g: Window) -> bool:
    """Whether vectors are cut from pixels side by side: if they take turns with few blocks and are fewer than those of
    single pixels."""
    return _turns(g) <= BLOCKS and -(-g.out_w * g.in_c // BYTES) < g.out_w * -(-g.in_c // BYTES)


def _vectors(values: Array, g: Window) -> Array:
    """Values [..., channels] for the lanes of every block, [..., blocks * 64]."""
    repeated = np.tile(values, BYTES * _turns(g) // g.in_c) if _is_flat(g) else values
    whole = padded(repeated, BYTES, axis=-1)
    blocks = whole.reshape(*whole.shape[:-1], -1, BYTES)[..., UNPACKED]
    return np.ascontiguousarray(blocks.reshape(whole.shape))


def _packed(taps: NDArray[np.int8], g: Window) -> NDArray[np.int8]:
    """Weights [rows, k_w, channels] as ``LAYOUT``."""
    rows = padded(_vectors(taps, g), 4)
    lanes = rows.reshape(len(rows) // 4, 4, g.k_w, rows.shape[2] // BYTES, BYTES)
    return np.ascontiguousarray(lanes.transpose(3, 0, 2, 4, 1))


VARIANTS = (
    Variant("vnni", ("DEPTHWISE_CONV_2D",), frozenset({"avx512_vnni"}), lower, ("INT8",)),
    Variant("avx2", ("DEPTHWISE_CONV_2D",), frozenset({"avx2"}), lower, ("INT8",)),
)
