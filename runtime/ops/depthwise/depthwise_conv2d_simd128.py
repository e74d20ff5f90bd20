"""DEPTHWISE_CONV_2D of int8 with SIMD128 of WebAssembly: kernels_c/depthwise/depthwise_conv2d_simd128.h."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._layer import check_one_to_one, convolution_of
from twinfer.runtime.ops.core.channels import epilogue, lane_channels
from twinfer.runtime.ops.core.packing import LANES, padded
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

#: The most rows of a window (TW_TWIN_ROWS), and the most bytes of the ring; a hostile file may ask for many more.
ROWS, RING = 32, 1 << 20

#: The layout of the weights, as emitted C names it.
LAYOUT = "packed [out / 16][k_h][k_w / 2][16][2]"


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = convolution_of(node)
    g, x = layer.window, node.input(0)
    check_one_to_one(g)
    columns = max(g.pad_w + g.in_w, (g.out_w - 1) * g.stride_w + (g.k_w - 1) * g.dilation_w + 1)
    ring = ((g.k_h - 1) * g.dilation_h + 1) * columns * 4 * LANES
    accept(g.k_h <= ROWS, f"the window has more than {ROWS} rows")
    accept(ring <= RING, f"the rows that a window sees take more than {RING} bytes")
    taps = layer.weights[0].reshape(g.k_h, g.k_w, g.out_c)
    ends, fast = lane_channels(node, layer.bias)
    numbers = {"in_zero": x.zero, "fast": fast, "columns": columns}
    params: dict[str, Param] = {"window": g.params, "end": epilogue(node), **numbers}
    inputs = (x, weights(_packed(taps), LAYOUT), *ends)
    kernel = "tw_depthwise_conv2d_simd128_s8"
    return Call(kernel, params, inputs, (node.output,), ring, macs=layer.macs, weights=Weights())


def _packed(taps: NDArray[np.int8]) -> NDArray[np.int8]:
    """Weights [k_h, k_w, channels] as ``LAYOUT``."""
    whole = padded(padded(taps, 2, axis=1), LANES, axis=2)
    k_h, k_w, channels = whole.shape
    pairs = whole.reshape(k_h, k_w // 2, 2, channels // LANES, LANES)
    return np.ascontiguousarray(pairs.transpose(3, 0, 1, 4, 2))


VARIANT = Variant("simd128", ("DEPTHWISE_CONV_2D",), frozenset({"simd128"}), lower, ("INT8",))
