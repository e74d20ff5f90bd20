"""CONV_2D of int8 over 16 lanes: kernels_c/conv/conv2d_wide.h."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinfer.runtime.constant import Constant, weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._layer import ONE_CHANNEL, Convolution, convolution_of
from twinfer.runtime.ops.core.channels import epilogue, fold_zero, lane_channels
from twinfer.runtime.ops.core.packing import LANES, LANES_EIGHTS, LANES_HALVES, LANES_S8, ROWS, pack_s8, padded
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.ops.dense.fully_connected_wide import call_s8
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant

#: Output channels that share a vector with those of the next pixel; a multiple of what kernels take of the places of
#: pixels, TW_CONV_PLACES; bytes of the image that a band may see.
PAIRED, PLACES, BAND = 8, 24, 1 << 14

#: Values of a lane that are multiplied at once -> the layout of weights.
LAYOUTS = {2: LANES_HALVES, 4: LANES_S8, 8: LANES_EIGHTS}


def lower(node: Node, target: Target, block: int = 0) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel.

    ``block`` is the rows of outputs in a band, 0 for what is usually best.
    """
    layer = convolution_of(node, any_zero=True)
    if layer.zero:
        return _lower_zero(layer)
    return lower_dense(layer) if is_dense(layer.window) else lower_s8("tw_conv2d_wide_s8", layer, block=block)


def blocks(node: Node, target: Target) -> Iterator[tuple[int, Call]]:
    """Bands of other sizes, which may be better, with the call of each."""
    dense = is_dense(convolution_of(node, any_zero=True).window)
    return ((size, lower(node, target, size)) for size in (() if dense else (1, 2, 4, 8, 16, 32)))


def is_dense(g: Window) -> bool:
    """Whether there is one window an image, all of it: a FULLY_CONNECTED, which needs no copy of windows."""
    return g.out_h == g.out_w == 1 and (g.pad_h, g.pad_w, g.k_h, g.k_w) == (0, 0, g.in_h, g.in_w)


def lower_dense(layer: Convolution) -> Call:
    """The call of a convolution that ``is_dense``."""
    return call_s8(layer.node, layer.rows, layer.bias, layer.window.batches, layer.macs)


def lower_s8(kernel: str, layer: Convolution, size: int = 1, block: int = 0, step: int = 4) -> Call:
    """The call of a kernel that reads windows in bands of rows: kernels_c/conv/conv2d_wide.h.

    ``size`` is the bytes of a value in the copy of a band: 1 (x + 128) or 2 (x less the zero point); ``block`` the rows
    of outputs in a band, 0 for what is usually best; ``step`` the bytes whose products a lane adds at once.
    """
    node, g, x = layer.node, layer.window, layer.node.input(0)
    pair = int(step == 4 and g.out_c == PAIRED and g.out_w % 2 == 0)
    taps, width = (g.k_w, g.in_c) if g.dilation_w > 1 else (1, g.k_w * g.in_c)
    runs = padded(layer.rows.reshape(g.out_c, g.k_h * taps, width), step // size, axis=2)
    columns = max(g.pad_w + g.in_w, (g.out_w - 1) * g.stride_w + (g.k_w - 1) * g.dilation_w + 1)
    row = columns * g.in_c * size
    band = min(block, g.out_h) or _band(g, row)
    tile = {"run": size * runs.shape[2], "runs": taps, "columns": columns, "band": band, "pair": pair}
    offset = 128 + x.zero if size == 1 else 0
    ends, tile["fast"] = lane_channels(node, fold_zero(layer.rows, layer.bias, offset), 1 + pair)
    params: dict[str, Param] = {"window": g.params, "end": epilogue(node), "in_zero": x.zero, **tile}
    inputs = (x, _packed(np.tile(runs.reshape(g.out_c, -1), (1 + pair, 1)), size, step), *ends)
    places, steps = -(-band * g.out_w // PLACES) * PLACES, g.k_h * taps * tile["run"] // 4
    scratch = 4 * (places + steps) + _seen(g, band) * row + 16
    return Call(kernel, params, inputs, (node.output,), scratch, macs=layer.macs, weights=Weights(), rows=g.by_rows())


def _packed(w: Array, size: int, step: int) -> Constant:
    """Weights [out, k], values of ``size`` bytes: a lane has ``step`` bytes at once."""
    lanes = padded(w.astype(f"i{size}"))
    blocks = lanes.reshape(len(lanes) // LANES, LANES, -1, step // size).transpose(0, 2, 1, 3)
    return weights(np.ascontiguousarray(blocks), LAYOUTS[step // size])


def _seen(g: Window, rows: int) -> int:
    """Rows of the image that some rows of outputs see, its padding among them."""
    return (rows - 1) * g.stride_h + (g.k_h - 1) * g.dilation_h + 1


def _band(g: Window, row: int) -> int:
    """Rows of outputs at once, all bands about as many: what they see, ``row`` bytes each, is within ``BAND``."""
    most = max(1, (BAND // row - _seen(g, 1)) // g.stride_h + 1)
    return -(-g.out_h // -(-g.out_h // most))


def _lower_zero(layer: Convolution) -> Call:
    """The call for weights with a zero point: what it adds to a pixel's sums depends on the pixel alone."""
    node, g, w, x = layer.node, layer.window, layer.rows, layer.node.input(0)
    k, k4, out4 = w.shape[1], -(-w.shape[1] // 4) * 4, -(-g.out_c // LANES) * LANES
    folded = fold_zero(w.astype(np.int16) - np.int16(layer.zero), layer.bias, 128 + x.zero)
    ends, fast = lane_channels(node, folded)
    tile = {"k": k, "k4": k4, "in_zero": x.zero, "w_zero": layer.zero, "fast": fast}
    params: dict[str, Param] = {"window": g.params, "end": epilogue(node), **tile}
    inputs = (x, weights(pack_s8(w), LANES_S8), *ends)
    scratch = ROWS * (k4 + 4 * out4)
    kernel = "tw_conv2d_zero_wide_s8"
    return Call(kernel, params, inputs, (node.output,), scratch, macs=layer.macs, weights=Weights(), rows=g.by_rows())


SERVED, TYPES = ("CONV_2D",), ("INT8",)

VARIANTS = (
    Variant("wide", SERVED, frozenset({"avx512_vnni"}), lower, TYPES, ONE_CHANNEL, blocks),
    Variant("wide", SERVED, frozenset({"simd"}), lower, TYPES, ONE_CHANNEL, blocks),
)
