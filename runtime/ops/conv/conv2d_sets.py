"""CONV_2D of int8 with instructions that only some computers have: AVX2, AVX-VNNI, Arm's i8mm, SIMD128.

kernels_c/conv/conv2d_avx2.h, conv2d_avx_vnni.h, conv2d_simd128.h, and tw_conv2d_i8mm_s8 of conv2d_wide.h.
"""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._bands import PAIRED, is_dense
from twinfer.runtime.ops.conv._layer import ONE_CHANNEL, convolution_of
from twinfer.runtime.ops.conv.conv2d_wide import call_by_bands, lower_dense
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

#: Bytes that a lane of i8mm takes at once.
STEP = 8


def lower_avx2(node: Node, target: Target) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel."""
    layer = convolution_of(node)
    return lower_dense(layer) if is_dense(layer.window) else call_by_bands("tw_conv2d_avx2_s8", layer, size=2)


def lower_simd128(node: Node, target: Target) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel."""
    layer = convolution_of(node)
    if is_dense(layer.window):
        return lower_dense(layer)
    return call_by_bands("tw_conv2d_simd128_s8", layer, size=2, stored=1)


def lower_avx_vnni(node: Node, target: Target) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel."""
    return call_by_bands("tw_conv2d_avx_vnni_s8", convolution_of(node))


def lower_i8mm(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = convolution_of(node)
    g = layer.window
    run = g.in_c if g.dilation_w > 1 else g.k_w * g.in_c
    accept(g.out_c > PAIRED, f"it has {g.out_c} output channels: of up to {PAIRED}, two pixels share a vector")
    accept(run > STEP // 2, f"its runs of {run} bytes would be padded to {STEP}")
    return call_by_bands("tw_conv2d_i8mm_s8", layer, step=STEP)


SERVED, TYPES = ("CONV_2D",), ("INT8",)

VARIANTS = (
    Variant("avx2", SERVED, frozenset({"avx2"}), lower_avx2, TYPES, ONE_CHANNEL),
    Variant("avx_vnni", SERVED, frozenset({"avx_vnni"}), lower_avx_vnni, TYPES, ONE_CHANNEL),
    Variant("simd128", SERVED, frozenset({"simd128"}), lower_simd128, TYPES, ONE_CHANNEL),
    Variant("i8mm", SERVED, frozenset({"neon_i8mm"}), lower_i8mm, TYPES),
)
