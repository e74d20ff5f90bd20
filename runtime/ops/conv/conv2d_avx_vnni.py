"""CONV_2D of int8 on AVX-VNNI: kernels_c/conv/conv2d_avx_vnni.h."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._layer import ONE_CHANNEL, convolution_of
from twinfer.runtime.ops.conv.conv2d_wide import lower_s8
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel."""
    return lower_s8("tw_conv2d_avx_vnni_s8", convolution_of(node))


VARIANT = Variant("avx_vnni", ("CONV_2D",), frozenset({"avx_vnni"}), lower, ("INT8",), ONE_CHANNEL)
