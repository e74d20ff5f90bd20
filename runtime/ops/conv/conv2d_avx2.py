"""CONV_2D of int8 on AVX2: kernels_c/conv/conv2d_avx2.h."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._layer import ONE_CHANNEL, convolution_of
from twinfer.runtime.ops.conv.conv2d_wide import is_dense, lower_dense, lower_s8
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel."""
    layer = convolution_of(node)
    return lower_dense(layer) if is_dense(layer.window) else lower_s8("tw_conv2d_avx2_s8", layer, size=2)


VARIANT = Variant("avx2", ("CONV_2D",), frozenset({"avx2"}), lower, ("INT8",), ONE_CHANNEL)
