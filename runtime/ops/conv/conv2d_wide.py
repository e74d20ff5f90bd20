"""CONV_2D of int8 over 16 lanes: kernels_c/conv/conv2d_wide.h."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._bands import Bands, block_sizes, is_dense
from twinfer.runtime.ops.conv._layer import ONE_CHANNEL, Convolution, convolution_of
from twinfer.runtime.ops.core.channels import epilogue, fold_zero, lane_channels
from twinfer.runtime.ops.core.packing import LANES, LANES_S8, ROWS, pack_s8
from twinfer.runtime.ops.dense.fully_connected_wide import call_s8
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


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
    sizes = block_sizes(convolution_of(node, any_zero=True).window)
    return ((size, lower(node, target, size)) for size in sizes)


def lower_dense(layer: Convolution) -> Call:
    """The call of a convolution that ``is_dense``."""
    return call_s8(layer.node, layer.rows, layer.bias, layer.window.batches, layer.macs)


def lower_s8(kernel: str, layer: Convolution, size: int = 1, block: int = 0, step: int = 4) -> Call:
    """The call of a kernel by bands: kernels_c/conv/conv2d_wide.h. The last three are those of ``Bands``; of ``size`` 1
    values are copied as x + 128, of 2 less the zero point."""
    node, x = layer.node, layer.node.input(0)
    bands = Bands(layer.window, layer.rows, size, block, step)
    folded = fold_zero(layer.rows, layer.bias, 128 + x.zero if size == 1 else 0)
    ends, fast = lane_channels(node, folded, bands.times)
    params: dict[str, Param] = {**bands.params, "end": epilogue(node), "in_zero": x.zero, "fast": fast}
    return bands.call(kernel, node, params, ends)


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
