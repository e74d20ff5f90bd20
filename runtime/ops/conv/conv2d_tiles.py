"""CONV_2D in tiles for 32 registers: kernels_c/conv/conv2d_tiles.h."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._layer import ONE_CHANNEL, convolution_of
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.ops.isa.tiles import CHANNELS, PIXELS, layer_of
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

#: Instructions of a row of taps that a tile reads where it lies, of each byte of it beyond a multiple of eight, and of
#: each byte that is gathered instead.
ROW, STEP, GATHERED = 12, 5, 2


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel."""
    layer = convolution_of(node)
    g = layer.window
    accept(g.out_c >= CHANNELS, f"a tile has more than its {g.out_c} channels")
    inputs, ends = layer_of(layer.node, layer.rows, layer.bias)
    direct = _direct(g)
    params = {"window": g.params, "in_zero": node.input(0).zero, "direct": int(direct), **ends}
    scratch = 0 if direct and g.inside else PIXELS * layer.rows.shape[1]
    return layer.call("tw_conv2d_tiles_s8", params, (node.input(0), *inputs), scratch, PIXELS, Weights())


def _direct(g: Window) -> bool:
    """Whether reading rows of taps where they lie, once for each tile of channels, takes less than gathering them."""
    row = g.k_w * g.in_c
    read, gathered = (ROW + STEP * (row % 8)) * g.out_c, PIXELS * CHANNELS * (ROW + GATHERED * row)
    return (g.k_w == 1 or g.dilation_w == 1) and (g.k_h == 1 or read < gathered)


VARIANT = Variant("tiles", ("CONV_2D",), frozenset({"tiles"}), lower, ("INT8",), ONE_CHANNEL)
