"""CONV_2D over 16 lanes, int8 and float32: kernels_c/conv/conv2d.h and conv2d_f32.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime import constant
from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._layer import ONE_CHANNEL, Convolution, convolution_of
from twinfer.runtime.ops.core.activation import output_range
from twinfer.runtime.ops.core.channels import epilogue, fold_zero, lane_channels
from twinfer.runtime.ops.core.packing import LANES, LANES_F32, LANES_S8, ROWS, pack_f32, pack_s8, padded
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel."""
    layer = convolution_of(node, any_zero=True)
    if node.input(0).type == "FLOAT32":
        return _lower_f32(layer)
    return _lower_zero(layer) if layer.zero else lower_s8("tw_conv2d_wide_s8", layer, ROWS)


def _lower_f32(layer: Convolution) -> Call:
    node, g, w = layer.node, layer.window, layer.rows
    panel = _panel(g.pixels, w.shape[1], ROWS)
    tile = {"panel": panel, "direct": int(g.pointwise)}
    params: dict[str, Param] = {"window": g.params, "limits": output_range(node), **tile}
    inputs = (node.input(0), weights(pack_f32(w), LANES_F32), constant.bias(padded(layer.bias)))
    return Call(
        "tw_conv2d_wide_f32", params, inputs, (node.output,), 4 * panel * w.shape[1], macs=layer.macs, rows=g.by_rows()
    )


def lower_s8(kernel: str, layer: Convolution, rows: int) -> Call:
    """The call of a kernel that takes ``rows`` pixels of a panel at once, and weights packed by 16 channels."""
    node, g, w, x = layer.node, layer.window, layer.rows, layer.node.input(0)
    k4 = -(-w.shape[1] // 4) * 4
    panel = _panel(g.pixels, w.shape[1], rows)
    tile = {"k4": k4, "panel": panel, "direct": int(g.pointwise and k4 == w.shape[1]), "in_zero": x.zero}
    ends, tile["fast"] = lane_channels(node, fold_zero(w, layer.bias, 128 + x.zero))
    params = {"window": g.params, "end": epilogue(node), **tile}
    inputs = (x, weights(pack_s8(w), LANES_S8), *ends)
    return Call(
        kernel, params, inputs, (node.output,), panel * k4, macs=layer.macs, weights=Weights(), rows=g.by_rows()
    )


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


def _panel(pixels: int, depth: int, rows: int) -> int:
    """Pixels to gather at once: a multiple of ``rows``, at most 64, within 16 KiB unless ``rows`` take more."""
    k4 = -(-depth // 4) * 4
    return min(-(-pixels // rows) * rows, max(rows, 16384 // k4 // rows * rows), 64 // rows * rows)


SERVED, TYPES = ("CONV_2D",), ("INT8", "FLOAT32")

VARIANTS = (
    Variant("wide", SERVED, frozenset({"avx512_vnni"}), lower, TYPES, ONE_CHANNEL),
    Variant("wide", SERVED, frozenset({"simd"}), lower, TYPES, ONE_CHANNEL),
)
