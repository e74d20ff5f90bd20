"""CONV_2D in tiles for 32 registers: kernels_c/conv/conv2d_tiles.h."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._layer import ONE_CHANNEL, convolution_of
from twinfer.runtime.ops.isa.tiles import CHANNELS, PIXELS, layer_of
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel."""
    layer = convolution_of(node)
    g = layer.window
    accept(g.out_c >= CHANNELS, f"a tile has more than its {g.out_c} channels")
    inputs, ends = layer_of(layer.node, layer.rows, layer.bias)
    params = {"window": g.params, "in_zero": node.input(0).zero, **ends}
    scratch = PIXELS * layer.rows.shape[1] if g.k_h * g.k_w > 1 else 0
    return layer.call("tw_conv2d_tiles_s8", params, (node.input(0), *inputs), scratch, PIXELS, Weights())


VARIANT = Variant("tiles", ("CONV_2D",), frozenset({"tiles"}), lower, ("INT8",), ONE_CHANNEL)
