"""DEPTHWISE_CONV_2D on Helium, int8 and int16: kernels_c/depthwise/depthwise_conv2d_mve*.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import index, weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._layer import check_one_to_one, convolution_of
from twinfer.runtime.ops.core.activation import quantized_range
from twinfer.runtime.ops.core.channels import epilogue, fold_zero, multipliers
from twinfer.runtime.ops.core.packing import BLOCKS, LANES, padded
from twinfer.runtime.ops.core.requantize_s16 import Channels
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.ops.depthwise import _planes_mve
from twinfer.runtime.ops.isa.short import channels_s16
from twinfer.runtime.params import Param
from twinfer.runtime.program import Argument, Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

#: Most bytes of scratch, in which the kernel keeps k_h rows of 16 channels.
MOST_SCRATCH = 1 << 14


#: Instructions that a call takes until the rows of its first window are in scratch.
SETUP = 600


#: Sum, multiplier and shift number i of a block belong to channel ORDER_S8[i] (mve_s8.h: even and odd halves, twice).
ORDER_S8 = np.array([4 * lane + byte for byte in (0, 2, 1, 3) for lane in range(4)])


def lower_s8(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = convolution_of(node, any_zero=True)
    g, w, x = layer.window, layer.taps.astype(np.int32), node.input(0)
    pixels = 2 if (g.in_c, g.stride_w) == (8, 1) else 1
    steps = -(-g.out_w // pixels) * pixels
    row = LANES * max(g.pad_w + g.in_w, (steps - 1) * g.stride_w + g.k_w)
    check_rows(g, row)
    mult, shift = multipliers(layer.node, g.out_c)
    accept(w.min() > -128 or layer.zero != 0, "a weight is -128")
    accept(np.abs(w).max() < 255 and _fits(w, layer.bias), "a weight is 255, or sums do not fit 32 bits")
    accept(shift.max() <= 0 and shift.min() >= -31, "a multiplier is above 1 or below 2^-32")
    limits = quantized_range(node, node.output)
    nine = (g.k_h, g.k_w, *limits) == (3, 3, -128, 127) and shift.max() < 0
    folded = fold_zero(w.reshape(-1, g.out_c).T, layer.bias, x.zero)
    taps, again = _parts(w.reshape(-1, g.out_c), g.k_w)
    blocks = _blocks(taps, folded, mult, shift, pixels)
    kernel = "tw_depthwise_conv2d_nine_mve_s8" if nine else "tw_depthwise_conv2d_mve_s8"
    numbers = {"twice": pixels - 1, "row": row, "in_zero": x.zero}
    params: dict[str, Param] = {"window": g.params, "end": epilogue(node), **numbers}
    stored = Weights(rows=len(blocks), head=blocks.shape[1] - LANES * len(taps))
    inputs: tuple[Argument, ...] = (x, weights(blocks, BLOCKS))
    if again.shape[1] > 1:
        kernel, inputs = "tw_depthwise_conv2d_again_mve_s8", (*inputs, index(again))
        params |= {"nine": int(nine), "extra": again.shape[1] // 2}
    same = (0,) if (g.in_h, g.in_w) == (g.out_h, g.out_w) else ()  # rows are in scratch when their place is written
    outputs, scratch, rows = (node.output,), g.k_h * row, g.by_rows(setup=SETUP)
    return Call(kernel, params, inputs, outputs, scratch, inplace=same, macs=layer.macs, weights=stored, rows=rows)


def check_rows(g: Window, row: int) -> None:
    """Declined unless every output channel has its input channel, and k_h rows of ``row`` bytes fit the scratch."""
    check_one_to_one(g)
    accept(not g.dilated, "the window is dilated")
    accept(g.k_h * row <= MOST_SCRATCH, f"the rows of a window take {g.k_h * row} bytes, {MOST_SCRATCH} are the limit")


def _parts(w: Array, k_w: int) -> tuple[Array, Array]:
    """Weights [taps, channels] as int8: those behind the first ``taps`` add to some of them, in each block of channels
    to others. And how many these are, with row and column of each: int8 [blocks, 1 + 2 * the most of a block]."""
    low = w.clip(-127, 127)
    rest = padded(w - low, axis=1).reshape(len(w), -1, LANES).transpose(1, 0, 2)
    some = [np.flatnonzero(block.any(axis=1)) for block in rest]
    extra = max(map(len, some))
    again, added = np.zeros((len(some), 1 + 2 * extra), np.int8), np.zeros((extra, len(some), LANES), np.int32)
    for i, taps in enumerate(some):
        again[i, 0], added[: len(taps), i] = len(taps), rest[i, taps]
        again[i, 1 : 1 + 2 * len(taps)] = np.stack([taps // k_w, taps % k_w], 1).ravel()
    return np.concatenate([low, added.reshape(extra, LANES * len(some))[:, : w.shape[1]]]).astype(np.int8), again


def _fits(w: Array, bias: Array) -> bool:
    """Whether no sum leaves int32, not even with the output's zero point added."""
    most = 256 * np.abs(w.astype(np.int64)).sum(axis=(0, 1, 2)) + np.abs(bias.astype(np.int64))
    return int(most.max()) < (1 << 31) - 256


def _blocks(w: Array, bias: Array, mult: Array, shift: Array, times: int) -> Array:
    """Constants per 16 channels (8 stand twice): shift, bias, mult, weights [taps, 16]; int8 [blocks, bytes]."""
    ends = [padded(np.tile(v, times)).reshape(-1, LANES)[:, ORDER_S8] for v in (shift, bias, mult)]
    taps = padded(np.tile(w, (1, times)), axis=1).reshape(len(w), -1, LANES).transpose(1, 0, 2)
    parts = [np.ascontiguousarray(v).reshape(len(taps), -1).view(np.int8) for v in (*ends, taps)]
    return np.concatenate(parts, axis=1)


_OP, _NEEDS, _TYPES = ("DEPTHWISE_CONV_2D",), frozenset({"mve"}), ("INT8",)


#: Channels per vector of int16, and the order in which their sums lie: even ones, then odd ones.
LANES_S16 = 8
ORDER_S16 = np.array([0, 2, 4, 6, 1, 3, 5, 7])


def lower_s16(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = convolution_of(node)
    g = layer.window
    row = 2 * LANES_S16 * max(g.pad_w + g.in_w, (g.out_w - 1) * g.stride_w + g.k_w)
    check_rows(g, row)
    c = channels_s16(layer.node, layer.weights.reshape(-1, g.out_c).T)
    accept(c.fit, "sums do not fit 32 bits")
    params, eights = {"window": g.params, "limits": c.limits}, _eights(c)
    inputs, stored = (node.input(0), weights(eights, BLOCKS)), Weights(rows=len(eights), head=2 * 4 * LANES_S16)
    kernel, scratch = "tw_depthwise_conv2d_mve_s16", g.k_h * row
    return Call(kernel, params, inputs, (node.output,), scratch, macs=layer.macs, weights=stored, rows=g.by_rows())


def _eights(c: Channels) -> Array:
    """Constants per eight channels, int8 [blocks, bytes]: depthwise_conv2d_mve_s16.h."""
    bias, mult = (padded(v, LANES_S16).reshape(-1, LANES_S16)[:, ORDER_S16] for v in (c.bias, c.mult))
    taps = padded(c.weights, LANES_S16).reshape(len(bias), LANES_S16, -1).transpose(0, 2, 1)
    parts = [np.ascontiguousarray(v).reshape(len(bias), -1).view(np.int8) for v in (bias, mult, taps)]
    return np.concatenate(parts, 1)


VARIANTS = (
    Variant("planes_mve", _OP, _NEEDS, _planes_mve.lower, _TYPES),
    Variant("mve", _OP, _NEEDS, lower_s8, _TYPES),
    Variant("mve", ("DEPTHWISE_CONV_2D",), frozenset({"mve"}), lower_s16, ("INT16",)),
)
