"""DEPTHWISE_CONV_2D on the DSP extension, four channels at a time: kernels_c/depthwise/depthwise_conv2d_fours_dsp.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import per_channel, weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._layer import check_one_to_one, convolution_of
from twinfer.runtime.ops.core.packing import ENDS, FOURS, padded
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.ops.depthwise import _planes_dsp
from twinfer.runtime.ops.isa.short import channels_s8
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import accept

#: Channels of a word.
WORD = 4


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights, where there are too few outputs for a walk channel by channel."""
    layer = convolution_of(node)
    g = layer.window
    check_one_to_one(g)
    accept(g.in_c >= WORD, f"it has {g.in_c} channels, fewer than a word")
    low, right = (g.out_h - 1) * g.stride_h + (g.k_h - 1) * g.dilation_h, (g.out_w - 1) * g.stride_w
    fits = low < g.in_h and right + (g.k_w - 1) * g.dilation_w < g.in_w and not g.pad_h and not g.pad_w
    accept(fits, "windows leave the image")
    least = _planes_dsp.instructions(g) if 1 in (g.stride_h, g.dilation_h) and 1 in (g.stride_w, g.dilation_w) else None
    accept(least is None or instructions(g) < least, "channel by channel takes fewer instructions")
    c = channels_s8(node, layer.weights.reshape(-1, g.out_c).T, layer.bias)
    some = groups(g.in_c)
    ends = np.stack([2 * c.bias, c.mult, -c.shift], 1).astype(np.int32)[some]
    params: dict[str, Param] = {"window": g.params, "end": c.end, **_walk(g)}
    inputs = (node.input(0), weights(_packed(c.weights[some], g), FOURS), per_channel(ends, ENDS))
    kernel, outputs, rows = "tw_depthwise_conv2d_fours_dsp_s8", (node.output,), g.by_rows()
    return Call(kernel, params, inputs, outputs, macs=layer.macs, weights=Weights(), rows=rows)


def groups(channels: int) -> Array:
    """The channels of every group, [groups, 4]; the last group may overlap the one before."""
    first = np.minimum(np.arange(0, channels, WORD), channels - WORD)
    return np.asarray(first[:, None] + np.arange(WORD))


def instructions(g: Window) -> float:
    """What an image takes, about."""
    walk = _walk(g)
    window = walk["runs"] * (8 + 21 * -(-walk["taps"] // 2))
    return g.out_h * g.out_w * (20 + -(-g.in_c // WORD) * (60 + window))


def _walk(g: Window) -> dict[str, int]:
    """The params that say how the taps of a window lie in memory; a column of taps is one run, too."""
    row, column = g.dilation_h * g.in_w * g.in_c, g.dilation_w * g.in_c
    if g.k_w == 1:
        return {"runs": 1, "run": 0, "taps": g.k_h, "step": row}
    return {"runs": g.k_h, "run": row, "taps": g.k_w, "step": column}


def _packed(w: Array, g: Window) -> Array:
    """Weights int8 [groups, 4, taps] as the kernel reads them: int8 [groups, runs, pairs of taps, 8]."""
    walk = _walk(g)
    runs = padded(w.reshape(len(w), WORD, walk["runs"], walk["taps"]), 2, 3)
    halves = runs.reshape(len(w), 2, 2, walk["runs"], -1, 2)  # group, word, channel, run, pair, tap
    return np.ascontiguousarray(halves.transpose(0, 3, 4, 1, 5, 2)).reshape(len(w), walk["runs"], -1, 8)
