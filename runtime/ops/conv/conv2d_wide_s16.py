"""CONV_2D of int16 and int8 over 16 lanes: kernels_c/conv/conv2d_wide_s16.h."""

from __future__ import annotations

from collections.abc import Iterator

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._bands import block_sizes, call_s16, is_dense
from twinfer.runtime.ops.conv._layer import ONE_CHANNEL, convolution_of
from twinfer.runtime.ops.dense.fully_connected_wide_s16 import call_row
from twinfer.runtime.ops.isa.short import channels_in_32_bits
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target, block: int = 0) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel.

    ``block`` is the rows of outputs in a band, 0 for what is usually best.
    """
    layer = convolution_of(node)
    channels = channels_in_32_bits(layer.node, layer.rows)
    if is_dense(layer.window) and layer.window.batches == 1:
        return call_row(layer.node, channels)
    return call_s16(layer.node, layer.window, channels, block)


def blocks(node: Node, target: Target) -> Iterator[tuple[int, Call]]:
    """Bands of other sizes, which may be better, with the call of each."""
    return ((size, lower(node, target, size)) for size in block_sizes(convolution_of(node).window))


VARIANT = Variant("wide", ("CONV_2D",), frozenset({"simd"}), lower, ("INT16",), ONE_CHANNEL, blocks)
