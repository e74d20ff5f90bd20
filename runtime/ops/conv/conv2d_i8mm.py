"""CONV_2D of int8 on Arm's i8mm: tw_conv2d_i8mm_s8 of kernels_c/conv/conv2d_wide.h."""

from __future__ import annotations

from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._bands import PAIRED
from twinfer.runtime.ops.conv._layer import convolution_of
from twinfer.runtime.ops.conv.conv2d_wide import lower_s8
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

#: Bytes that a lane takes at once.
STEP = 8


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = convolution_of(node)
    g = layer.window
    run = g.in_c if g.dilation_w > 1 else g.k_w * g.in_c
    accept(g.out_c > PAIRED, f"it has {g.out_c} output channels: of up to {PAIRED}, two pixels share a vector")
    accept(run > STEP // 2, f"its runs of {run} bytes would be padded to {STEP}")
    return lower_s8("tw_conv2d_i8mm_s8", layer, step=STEP)


VARIANT = Variant("i8mm", ("CONV_2D",), frozenset({"neon_i8mm"}), lower, ("INT8",))
