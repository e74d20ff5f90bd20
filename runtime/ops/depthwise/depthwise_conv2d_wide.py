"""DEPTHWISE_CONV_2D over 16 lanes: kernels_c/depthwise/depthwise_conv2d_wide*.h."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime import constant
from twinfer.runtime.constant import index, weights
from twinfer.runtime.fixed_point import wrap32
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._layer import Convolution, check_one_to_one, convolution_of
from twinfer.runtime.ops.core.activation import output_range
from twinfer.runtime.ops.core.channels import epilogue, lane_channels
from twinfer.runtime.ops.core.madd import float_kernel
from twinfer.runtime.ops.core.packing import LANES, LANES_S16, padded
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

#: Most rows or columns of output that get a table of their borders; a hostile file may ask for many more.
LONGEST = 1 << 16


def _inside(out: int, stride: int, pad: int, dilation: int, kernel: int, extent: int) -> list[tuple[int, int]]:
    """Per output along one axis: the first tap inside the image, and the end of the taps inside."""
    spans = []
    for o in range(out):
        begin = o * stride - pad
        first, end = max(0, -(begin // dilation)), min(kernel, -((begin - extent) // dilation))
        spans.append((first, end) if first < end else (0, 0))
    return spans


def _classes(inside: list[tuple[int, int]]) -> tuple[Array, list[tuple[int, int]]]:
    """First tap, end of taps and border class per output, int32 [out, 3]; and the distinct classes."""
    distinct = list(dict.fromkeys(inside))
    return np.array([(*pair, distinct.index(pair)) for pair in inside], np.int32), distinct


def lower_s8(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = convolution_of(node, any_zero=True)
    g, x = layer.window, node.input(0)
    check_one_to_one(g)
    accept(max(g.out_h, g.out_w) <= LONGEST, f"the output has more than {LONGEST} rows or columns")
    rows, row_classes = _classes(_inside(g.out_h, g.stride_h, g.pad_h, g.dilation_h, g.k_h, g.in_h))
    columns, column_classes = _classes(_inside(g.out_w, g.stride_w, g.pad_w, g.dilation_w, g.k_w, g.in_w))
    lanes = padded(_taps(layer) & 0xFFFF, axis=2)
    ends, fast = lane_channels(layer.node, _biases(layer, row_classes, column_classes))
    tile = {"padded": lanes.shape[2], "column_classes": len(column_classes), "fast": fast}
    params: dict[str, Param] = {"window": g.params, "end": epilogue(node), **tile}
    inputs = (x, weights(lanes, LANES_S16), *ends, index(rows), index(columns))
    return Call("tw_depthwise_conv2d_wide_s8", params, inputs, (node.output,), macs=layer.macs, weights=Weights())


def _taps(layer: Convolution) -> NDArray[np.int32]:
    """The weights less their zero point, [k_h, k_w, channels]; they fit int16."""
    return np.asarray(layer.weights[0].astype(np.int32) - layer.zero)


def _biases(layer: Convolution, rows: list[tuple[int, int]], columns: list[tuple[int, int]]) -> Array:
    """Biases int32 [classes, channels] per border class, with the input zero point of the taps inside folded in."""
    taps = _taps(layer).astype(np.int64)
    by_columns = [taps[:, c0:c1].sum(axis=1) for c0, c1 in columns]
    sums = np.array([[each[r0:r1].sum(axis=0) for each in by_columns] for r0, r1 in rows])
    folded = layer.bias.astype(np.int64) - layer.node.input(0).zero * sums.reshape(-1, layer.window.out_c)
    return np.asarray(wrap32(folded).astype(np.int32))


def lower_s16(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    from twinfer.runtime.ops.depthwise import depthwise_conv2d_mve  # few models need it

    return depthwise_conv2d_mve.lower_s16(node, target)


#: Fewest channels: a vector of AVX2. Two pixels of so many share one of AVX-512.
CHANNELS = 8


#: The layout of the weights, as emitted C names it.
LAYOUT = "packed [k_h * k_w][out]"


def lower_f32(node: Node, target: Target) -> Call:
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
    kernel = float_kernel("tw_depthwise_conv2d_wide", node)
    return Call(kernel, params, inputs, (node.output,), macs=layer.macs, rows=g.by_rows())


def _wide(values: Array, pair: int) -> Array:
    """Values [..., channels] for a vector at least: those of a pair come twice."""
    repeated = np.concatenate([values] * (1 + pair), axis=-1)
    short = repeated.shape[-1] < LANES
    return np.ascontiguousarray(padded(repeated, LANES, axis=-1) if short else repeated)


VARIANTS = (
    Variant("wide", ("DEPTHWISE_CONV_2D",), frozenset({"simd"}), lower_s8, ("INT8",)),
    Variant("wide", ("DEPTHWISE_CONV_2D",), frozenset({"simd"}), lower_f32, ("FLOAT32",)),
    Variant("wide", ("DEPTHWISE_CONV_2D",), frozenset({"simd"}), lower_s16, ("INT16",)),
)
