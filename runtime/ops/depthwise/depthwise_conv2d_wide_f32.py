"""DEPTHWISE_CONV_2D of float32 over vectors of channels: kernels_c/depthwise/depthwise_conv2d_wide.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime import constant
from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._layer import check_one_to_one, convolution_of
from twinfer.runtime.ops.core.activation import output_range
from twinfer.runtime.ops.core.packing import LANES, padded
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

#: Fewest channels: a vector of AVX2. Two pixels of so many share one of AVX-512.
CHANNELS = 8

#: The layout of the weights, as emitted C names it.
LAYOUT = "packed [k_h * k_w][out]"


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = convolution_of(node)
    g = layer.window
    check_one_to_one(g)
    accept(g.out_c >= CHANNELS, f"it has fewer than {CHANNELS} channels")
    pair = int(g.out_c == CHANNELS and g.stride_w == 1)
    taps, bias = (_wide(values, pair) for values in (layer.weights.reshape(-1, g.out_c), layer.bias))
    tile = {"wide": len(bias), "pair": pair}
    params: dict[str, Param] = {"window": g.params, "limits": output_range(node), **tile}
    inputs = (node.input(0), weights(taps, LAYOUT), constant.bias(bias))
    return Call("tw_depthwise_conv2d_wide_f32", params, inputs, (node.output,), macs=layer.macs, rows=g.by_rows())


def _wide(values: Array, pair: int) -> Array:
    """Values [..., channels] for a vector at least: those of a pair come twice."""
    repeated = np.concatenate([values] * (1 + pair), axis=-1)
    short = repeated.shape[-1] < LANES
    return np.ascontiguousarray(padded(repeated, LANES, axis=-1) if short else repeated)


VARIANT = Variant("wide", ("DEPTHWISE_CONV_2D",), frozenset({"simd"}), lower, ("FLOAT32",))
