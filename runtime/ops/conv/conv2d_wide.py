"""CONV_2D over 16 lanes, int8, int16 and float32: kernels_c/conv/conv2d_wide*.h, conv2d_groups_wide.h."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinfer.runtime import constant
from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._bands import Bands, block_sizes, call_s16, is_dense
from twinfer.runtime.ops.conv._layer import ONE_CHANNEL, Convolution, beyond, convolution_of
from twinfer.runtime.ops.core.activation import output_range
from twinfer.runtime.ops.core.channels import epilogue, fold_zero, lane_channels, lane_ends, one_rounding
from twinfer.runtime.ops.core.madd import float_kernel
from twinfer.runtime.ops.core.packing import LANES, LANES_F32, LANES_S8, ROWS, pack_f32, pack_s8, padded
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.ops.dense.fully_connected_wide import call_row, call_s8
from twinfer.runtime.ops.isa.short import channels_in_32_bits
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def lower_s8(node: Node, target: Target, block: int = 0) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel.

    ``block`` is the rows of outputs in a band, 0 for what is usually best.
    """
    layer = convolution_of(node, any_zero=True)
    if layer.zero:  # 16 bits hold what is left of the weights
        return call_by_bands("tw_conv2d_avx2_s8", layer, size=2, block=block)
    return lower_dense(layer) if is_dense(layer.window) else call_by_bands("tw_conv2d_wide_s8", layer, block=block)


def blocks_s8(node: Node, target: Target) -> Iterator[tuple[int, Call]]:
    """Bands of other sizes, which may be better, with the call of each."""
    sizes = block_sizes(convolution_of(node, any_zero=True).window)
    return ((size, lower_s8(node, target, size)) for size in sizes)


def lower_dense(layer: Convolution) -> Call:
    """The call of a convolution that ``is_dense``."""
    return call_s8(layer.node, layer.rows, layer.bias, layer.window.batches, layer.macs)


def call_by_bands(
    kernel: str, layer: Convolution, size: int = 1, block: int = 0, step: int = 4, stored: int = 0
) -> Call:
    """The call of a kernel by bands: kernels_c/conv/conv2d_wide.h. The last four are those of ``Bands``; of ``size`` 1
    values are copied as x + 128, of 2 less the zero point."""
    node, x = layer.node, layer.node.input(0)
    bands = Bands(layer.window, layer.rows, size, block, step, stored)
    folded = fold_zero(layer.rows, layer.bias, 128 + x.zero if size == 1 else 0)
    ends, fast = lane_channels(node, folded, bands.times)
    params: dict[str, Param] = {**bands.params, "end": epilogue(node), "in_zero": x.zero, "fast": fast}
    return bands.call(kernel, node, params, ends)


SERVED, TYPES = ("CONV_2D",), ("INT8",)


def lower_s16(node: Node, target: Target, block: int = 0) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel.

    ``block`` is the rows of outputs in a band, 0 for what is usually best.
    """
    layer = convolution_of(node)
    channels = channels_in_32_bits(layer.node, layer.rows)
    if is_dense(layer.window) and layer.window.batches == 1:
        return call_row(layer.node, channels)
    return call_s16(layer.node, layer.window, channels, block)


def blocks_s16(node: Node, target: Target) -> Iterator[tuple[int, Call]]:
    """Bands of other sizes, which may be better, with the call of each."""
    return ((size, lower_s16(node, target, size)) for size in block_sizes(convolution_of(node).window))


#: Most floats of the padded rows that a window sees; a hostile file may ask for many more.
MOST = 1 << 22


def lower_f32(node: Node, target: Target) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel."""
    layer = convolution_of(node)
    g = layer.window
    rows, columns = _copied(_turned(g))
    safe = columns == 0 or beyond(node) is not None
    accept(safe, "there is padding, and weights are not finite or, with fused products, a bias is -0.0")
    accept(rows * columns * g.in_c <= MOST, f"the rows that a window sees have more than {MOST} elements")
    params: dict[str, Param] = {"window": g.params, "limits": output_range(node), "columns": columns}
    inputs = (node.input(0), weights(pack_f32(layer.rows), LANES_F32), constant.bias(padded(layer.bias)))
    scratch = 4 * rows * columns * g.in_c
    kernel = float_kernel("tw_conv2d_wide", node)
    return Call(kernel, params, inputs, (node.output,), scratch, macs=layer.macs, rows=g.by_rows())


def _copied(g: Window) -> tuple[int, int]:
    """Rows and columns of pixels of the copy that the kernel makes; no columns where it reads the image itself."""
    rows, width = (g.k_h - 1) * g.dilation_h + 1, (g.out_w - 1) * g.stride_w + (g.k_w - 1) * g.dilation_w + 1
    return rows, 0 if g.inside else max(g.pad_w + g.in_w, width)


def _turned(g: Window) -> Window:
    """Windows over one column of pixels as the kernel takes them: over a row."""
    if g.in_w * g.out_w * g.k_w > 1 or g.pad_w:
        return g
    across = {"out_h": 1, "out_w": g.out_h, "k_h": 1, "k_w": g.k_h, "stride_h": 1, "stride_w": g.stride_h}
    along = {"dilation_h": 1, "dilation_w": g.dilation_h, "pad_h": 0, "pad_w": g.pad_h}
    return g._replace(in_h=1, in_w=g.in_h, **across, **along)


#: Bytes of x that a lane takes at once.
STEP = 4


def lower_groups(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = convolution_of(node)
    g, groups, depth = layer.window, layer.groups, layer.weights.shape[3]
    accept(groups > 1, "it has no groups")
    accept(depth % STEP == 0, f"its groups have {depth} channels, no multiple of {STEP}")
    out, x = g.out_c // groups, node.input(0)
    rows = layer.weights.reshape(g.out_c, -1)
    mult, shift = lane_ends(layer.node, g.out_c)
    ends = (fold_zero(rows, layer.bias, 128 + x.zero), mult, shift)
    bias, mult, shift = (padded(values.reshape(groups, out), axis=1) for values in ends)
    packed = np.concatenate([pack_s8(group) for group in rows.reshape(groups, out, -1)])
    sizes = {"bytes": depth, "out": out, "padded": -(-out // LANES) * LANES}
    params: dict[str, Param] = {
        "window": g.params, "end": epilogue(node), **sizes, "in_zero": x.zero, "fast": one_rounding(shift)
    }  # fmt: skip
    inputs = (
        x, weights(packed, LANES_S8), constant.bias(bias), constant.requantize(mult), constant.requantize(shift)
    )  # fmt: skip
    kernel, scratch = "tw_conv2d_groups_wide_s8", ROWS * g.k_h * g.k_w * g.in_c
    return Call(kernel, params, inputs, (node.output,), scratch, macs=layer.macs, rows=g.by_rows())


VARIANTS = (
    Variant("wide", SERVED, frozenset({"avx512_vnni"}), lower_s8, TYPES, ONE_CHANNEL, blocks_s8),
    Variant("wide", SERVED, frozenset({"simd"}), lower_s8, TYPES, ONE_CHANNEL, blocks_s8),
    Variant("wide", ("CONV_2D",), frozenset({"simd"}), lower_f32, ("FLOAT32",), ONE_CHANNEL),
    Variant("wide", ("CONV_2D",), frozenset({"simd"}), lower_groups, ("INT8",)),
    Variant("wide", ("CONV_2D",), frozenset({"simd"}), lower_s16, ("INT16",), ONE_CHANNEL, blocks_s16),
)
