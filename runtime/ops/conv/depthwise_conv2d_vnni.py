"""DEPTHWISE_CONV_2D of int8 on AVX512-VNNI: kernels_c/conv/depthwise_conv2d_vnni.h."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime import constant
from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._layer import check_one_to_one, convolution_of
from twinfer.runtime.ops.core.channels import epilogue, fold_zero, lane_ends, one_rounding
from twinfer.runtime.ops.core.packing import padded
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

#: Bytes of a vector, and the most rows of taps: TW_VNNI_BYTES, TW_VNNI_ROWS.
BYTES, ROWS = 64, 16

#: The layout of the weights, as emitted C names it.
LAYOUT = "packed [block][k_h / 4][k_w][4][16][4], as bytes are unpacked"

#: Lane i of sums a -> the byte of a vector that it is.
UNPACKED = np.array([[16 * (i // 4) + 4 * a + i % 4 for i in range(16)] for a in range(4)]).reshape(-1)


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = convolution_of(node)
    g, x = layer.window, node.input(0)
    check_one_to_one(g)
    accept(g.k_h <= ROWS, f"the window has more than {ROWS} rows")
    ends = lane_ends(node, g.out_c)
    accept(bool(one_rounding(ends[1])), "its sums cannot end in one rounding")
    pitch, taps = min(g.in_c, BYTES), layer.weights[0]
    columns = max(g.pad_w + g.in_w, (g.out_w - 1) * g.stride_w + (g.k_w - 1) * g.dilation_w + 1)
    tile = {"in_zero": x.zero + 128, "pitch": pitch, "columns": columns, "flat": int(_is_flat(g))}
    params: dict[str, Param] = {"window": g.params, "end": epilogue(node), **tile}
    bias = fold_zero(taps.reshape(-1, g.out_c).T, layer.bias, 128 + x.zero)
    mult, shift = (constant.requantize(_vectors(values, g)) for values in ends)
    inputs = (x, weights(_packed(taps, g), LAYOUT), constant.bias(_vectors(bias, g)), mult, shift)
    scratch = ((g.k_h - 1) * g.dilation_h + 1) * columns * pitch + BYTES
    kernel = "tw_depthwise_conv2d_vnni_s8"
    return Call(kernel, params, inputs, (node.output,), scratch, macs=layer.macs, weights=Weights())


def _is_flat(g: Window) -> bool:
    """Whether pixels lie side by side as their outputs do, so that a vector holds several."""
    return g.stride_w == 1 and BYTES % g.in_c == 0


def _vectors(values: Array, g: Window) -> Array:
    """Values [..., channels] for the lanes of every block, [..., blocks * 64]: flat pixels have them several times."""
    repeated = np.tile(values, BYTES // g.in_c) if _is_flat(g) else values
    whole = padded(repeated, BYTES, axis=-1)
    blocks = whole.reshape(*whole.shape[:-1], -1, BYTES)[..., UNPACKED]
    return np.ascontiguousarray(blocks.reshape(whole.shape))


def _packed(taps: NDArray[np.int8], g: Window) -> NDArray[np.int8]:
    """Weights [k_h, k_w, channels] as ``LAYOUT``."""
    rows = padded(_vectors(taps, g), 4)
    lanes = rows.reshape(len(rows) // 4, 4, g.k_w, rows.shape[2] // BYTES, BYTES)
    return np.ascontiguousarray(lanes.transpose(3, 0, 2, 4, 1))


VARIANT = Variant("vnni", ("DEPTHWISE_CONV_2D",), frozenset({"avx512_vnni"}), lower, ("INT8",))
