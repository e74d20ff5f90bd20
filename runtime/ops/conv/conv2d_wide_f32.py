"""CONV_2D of float32 over vectors of channels: kernels_c/conv/conv2d_f32.h."""

from __future__ import annotations

from twinfer.runtime import constant
from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._layer import ONE_CHANNEL, beyond, convolution_of
from twinfer.runtime.ops.core.activation import output_range
from twinfer.runtime.ops.core.packing import LANES_F32, pack_f32, padded
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

#: Most floats of the padded rows that a window sees; a hostile file may ask for many more.
MOST = 1 << 22


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel."""
    layer = convolution_of(node)
    g = layer.window
    rows, width = (g.k_h - 1) * g.dilation_h + 1, (g.out_w - 1) * g.stride_w + (g.k_w - 1) * g.dilation_w + 1
    fits = g.pad_h == g.pad_w == 0 and (g.out_h - 1) * g.stride_h + rows <= g.in_h and width <= g.in_w
    columns = 0 if fits else max(g.pad_w + g.in_w, width)
    accept(columns == 0 or beyond(node) is not None, "the weights are not finite, and there is padding")
    accept(rows * columns * g.in_c <= MOST, f"the rows that a window sees have more than {MOST} elements")
    params: dict[str, Param] = {"window": g.params, "limits": output_range(node), "columns": columns}
    inputs = (node.input(0), weights(pack_f32(layer.rows), LANES_F32), constant.bias(padded(layer.bias)))
    scratch = 4 * rows * columns * g.in_c
    return Call("tw_conv2d_wide_f32", params, inputs, (node.output,), scratch, macs=layer.macs, rows=g.by_rows())


VARIANT = Variant("wide", ("CONV_2D",), frozenset({"simd"}), lower, ("FLOAT32",), ONE_CHANNEL)
