"""DEPTHWISE_CONV_2D on the DSP extension: kernels_c/depthwise/depthwise_conv2d_dsp.h and depthwise_conv2d_dsp_s16.h."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from twinfer.runtime.constant import per_channel, requantize, weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._layer import Convolution, convolution_of
from twinfer.runtime.ops.core.packing import ENDS, PAIRS
from twinfer.runtime.ops.core.requantize import Channels
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.ops.depthwise import _fours_dsp, _planes_dsp
from twinfer.runtime.ops.isa.dsp import most_of
from twinfer.runtime.ops.isa.short import channels_s8, channels_s16
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.rows import Rows
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

#: Most elements of a line: the kernel counts them in a byte.
LONGEST = 254

#: Instructions of the set-up that a channel takes in every call.
CHANNEL = 205


#: The shift of sums that end shortly: TW_DEPTHWISE_SHIFT.
SHIFT = 10


class Axis(NamedTuple):
    """One axis of a node; neighbours lie ``x_bytes`` apart in the input and ``y_bytes`` in the output."""

    extent: int
    out: int
    stride: int
    pad: int
    x_bytes: int
    y_bytes: int

    @property
    def fits(self) -> bool:
        """Whether the image has at least 3 elements and windows of 3 leave it by at most 1."""
        behind = (self.out - 1) * self.stride - self.pad + 3 - self.extent
        return self.extent >= 3 and self.pad <= 1 and behind <= 1

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many windows begin in the padding before, lie inside, and end in the padding behind."""
        ends = (self.extent + self.pad - 3) // self.stride + 1
        return self.pad, ends - self.pad, self.out - ends

    @property
    def walkable(self) -> bool:
        """Whether the kernel may walk along this axis."""
        return self.extent <= LONGEST and (self.stride == 2 or (self.stride == 1 and self.x_bytes == self.y_bytes))


class Walk(NamedTuple):
    """How the kernel walks over a node's images: weights [out_c, along * lines], and the params."""

    weights: Array
    params: dict[str, Param]


def lower_s8(node: Node, target: Target) -> Call:
    """The call for int8 activations and constant weights."""
    return _by_rows(node, 1, _call_s8)


def lower_s16(node: Node, target: Target) -> Call:
    """The same for int16 activations."""
    return _by_rows(node, 2, _call_s16)


def _by_rows(node: Node, size: int, call_of: Callable[[Convolution, Walk], Call]) -> Call:
    """The call that walks as is fastest; one that goes along rows of the image computes some of them alone, too."""
    layer = convolution_of(node, any_zero=True)
    rows, columns = _axes(layer.window, size)
    along = rows if rows.walkable and (rows.out > columns.out or not columns.walkable) else columns
    accept(along.walkable, f"neither axis has at most {LONGEST} elements and a stride that the kernel takes")
    call = call_of(layer, _walk(layer, along, columns if along is rows else rows, size))
    if not columns.walkable:
        return call
    g = layer.window
    planes = g.in_c * size if g.in_c == g.out_c else 0
    by_rows = Rows(g.stride_h, g.pad_h, 2, counts=("y_size",), lines="lines", setup=CHANNEL * g.out_c, planes=planes)
    if along is columns:
        return replace(call, rows=by_rows)
    return replace(call, rows_call=replace(call_of(layer, _walk(layer, columns, rows, size)), rows=by_rows))


def _call_s8(layer: Convolution, walk: Walk) -> Call:
    node = layer.node
    c = channels_s8(node, walk.weights, layer.bias)
    arrays = (weights(c.weights, PAIRS), per_channel(np.stack([2 * c.bias, c.mult], 1), ENDS), requantize(-c.shift))
    params = {**walk.params, "in_zero": node.input(0).zero, "end": c.end}
    inputs = (node.input(0), *arrays)
    suffix, stored = layer.stored
    suffix = suffix or "_short" * _short(c)
    kernel, outputs = f"tw_depthwise_conv2d{suffix}_dsp_s8", (node.output,)
    return Call(kernel, params, inputs, outputs, macs=layer.macs, weights=stored)


def _short(c: Channels) -> bool:
    """Whether all sums may end in two instructions: none is below the output's zero point, and all numbers fit."""
    k = 1 + SHIFT + c.shift.astype(np.int64)
    if c.low < c.out_zero or k.min() < 2:
        return False
    most = most_of(c.weights, c.bias) << k
    return bool(most.max() < 1 << 31 and (np.abs(c.weights.astype(np.int64)) << k[:, None]).max() < 1 << 15)


def _call_s16(layer: Convolution, walk: Walk) -> Call:
    c = channels_s16(layer.node, walk.weights)
    accept(c.fit, "sums do not fit 32 bits")
    inputs = (layer.node.input(0), weights(c.weights, PAIRS), per_channel(np.stack([c.bias, c.mult], 1), ENDS), None)
    params, outputs = {**walk.params, "in_zero": 0, "end": {"zero": 0, **c.limits}}, (layer.node.output,)
    return Call("tw_depthwise_conv2d_dsp_s16", params, inputs, outputs, macs=layer.macs, weights=Weights())


def _walk(layer: Convolution, along: Axis, lines: Axis, size: int) -> Walk:
    """How to walk over elements of ``size`` bytes."""
    turned = along.x_bytes < lines.x_bytes  # a walk along rows of the image takes the weights' rows as lines
    w, g = layer.taps[0], layer.window
    taps = w.transpose(2, 1, 0) if turned else w.transpose(2, 0, 1)
    return Walk(taps.reshape(g.out_c, 9), _params(g, along, lines, size))


def _axes(g: Window, size: int) -> tuple[Axis, Axis]:
    """Rows and columns of the image; Declined if the kernel has no such windows."""
    x, y = g.in_c * size, g.out_c * size
    rows = Axis(g.in_h, g.out_h, g.stride_h, g.pad_h, g.in_w * x, g.out_w * y)
    columns = Axis(g.in_w, g.out_w, g.stride_w, g.pad_w, x, y)
    accept((g.k_h, g.k_w) == (3, 3), f"the window is {g.k_h}x{g.k_w}, not 3x3")
    accept(not g.dilated, "the window is dilated")
    accept(rows.fits and columns.fits, "the image has fewer than 3 rows or columns, or padding of more than 1")
    return rows, columns


def _params(g: Window, along: Axis, lines: Axis, size: int) -> dict[str, Param]:
    steps, (before, inside, behind) = along.counts, lines.counts
    return {
        "batches": g.batches,
        "in_c": g.in_c,
        "multiplier": g.out_c // g.in_c,
        "x_size": g.in_h * g.in_w * g.in_c * size,
        "y_size": g.out_h * g.out_w * g.out_c * size,
        "lines": (before, inside, behind),
        "line_stride": lines.stride,
        "x_line": lines.x_bytes,
        "y_line": lines.y_bytes,
        "steps": steps[0] + steps[1],
        "behind": steps[2],
        "stride": along.stride,
        "pad": along.pad,
        "x_step": along.x_bytes,
        "y_step": along.y_bytes,
    }


SERVED, NEEDS = ("DEPTHWISE_CONV_2D",), frozenset({"dsp"})

VARIANTS = (
    Variant("dsp", SERVED, NEEDS, lower_s8, ("INT8",)),
    Variant("dsp", SERVED, NEEDS, lower_s16, ("INT16",)),
    Variant("fours_dsp", SERVED, NEEDS, _fours_dsp.lower, ("INT8",)),
    Variant("planes_dsp", SERVED, NEEDS, _planes_dsp.lower_s8, ("INT8",)),
    Variant("planes_dsp", SERVED, NEEDS, _planes_dsp.lower_s16, ("INT16",)),
)
