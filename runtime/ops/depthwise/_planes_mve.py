"""DEPTHWISE_CONV_2D of int8 on Helium, channel by channel: kernels_c/depthwise/depthwise_conv2d_planes_mve.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import index, per_channel, weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._layer import convolution_of
from twinfer.runtime.ops.core.packing import ENDS, LANES
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.ops.depthwise._planes import axes, is_turned, taps_of
from twinfer.runtime.ops.isa.short import channels_s8
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import accept

#: Most taps of a window, bytes of scratch, and bytes between neighbours along the walk.
MOST_TAPS, MOST_SCRATCH, MOST_STEP = 64, 1 << 14, 9362


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights, where it takes fewer instructions than 16 channels at a time do."""
    layer = convolution_of(node)
    g = layer.window
    axes(g)
    by_lanes = g.in_c == g.out_c and not g.dilated
    accept(not by_lanes or instructions(g) < lanes_instructions(g), "16 channels at a time take fewer instructions")
    accept(g.k_h * g.k_w <= MOST_TAPS, f"a window has {g.k_h * g.k_w} taps, {MOST_TAPS} are the limit")
    turned = is_turned(g)
    step = g.in_c * (g.in_w * g.dilation_h if turned else g.dilation_w)
    accept(step <= MOST_STEP, f"pixels along the walk lie {step} bytes apart, {MOST_STEP} are the limit")
    multiplier, scratch = g.out_c // g.in_c, scratch_of(g)
    accept(scratch <= MOST_SCRATCH, f"it needs {scratch} bytes of scratch, {MOST_SCRATCH} are the limit")
    taps = taps_of(layer)
    c = channels_s8(node, taps.reshape(g.out_c, -1), layer.bias)
    at = places(*taps.shape[1:])
    ends = np.stack([c.bias, c.mult, c.shift], 1).astype(np.int32)
    numbers = {"multiplier": multiplier, "turned": int(turned), "vectors": len(at), "in_zero": node.input(0).zero}
    params: dict[str, Param] = {"window": g.params, "end": c.end, **numbers}
    inputs = (node.input(0), weights(c.weights), index(at), per_channel(ends, ENDS))
    plain = (g.in_h, g.in_w, g.in_c, g.dilation_h, g.dilation_w) == (g.out_h, g.out_w, g.out_c, 1, 1)
    kernel, outputs, rows = "tw_depthwise_conv2d_planes_mve_s8", (node.output,), g.by_rows(setup=int(_fixed(g)))
    return Call(
        kernel, params, inputs, outputs, scratch, inplace=(0,) if plain else (), macs=layer.macs, weights=Weights(),
        rows=rows,
    )  # fmt: skip


def scratch_of(g: Window) -> int:
    """Bytes of weights and ring, which may be read by whole vectors."""
    lines, along = axes(g)
    room = -(-(2 * along.taps + 1) * lines.taps // LANES) * LANES
    return g.out_c // g.in_c * room + -(-along.columns * lines.taps // LANES) * LANES + LANES


def places(along: int, lines: int) -> Array:
    """Where the kernel finds the weights [along, lines], each column twice, in whole vectors; zeros lie behind them."""
    twice = 2 * lines * np.arange(along)[:, None] + np.arange(lines)
    size = -(-twice.size // LANES) * LANES
    whole = np.full(size, 2 * lines * along)
    whole[: twice.size] = twice.ravel()
    return whole.reshape(-1, LANES).astype(np.uint8)


def _fixed(g: Window) -> float:
    """Instructions of a call before any line: the channels' weights and empty rings."""
    return 120.0 * g.in_c * g.dilation_h * g.dilation_w


def instructions(g: Window) -> float:
    """What an image takes, about."""
    lines, along = axes(g)
    vectors = -(-along.taps * lines.taps // LANES)
    kept = lines.out * min(lines.stride, lines.taps) * (20 + 0.7 * along.extent) * along.dilation
    rows = g.out_c // g.in_c * lines.out * (50 * along.dilation + along.out / 4 * (8 * vectors + 19))
    return _fixed(g) + g.in_c * (kept + rows)


def lanes_instructions(g: Window) -> float:
    """The same of 16 channels at a time; 3 x 3 windows have a loop of their own."""
    window = 130 if (g.k_h, g.k_w) == (3, 3) else 43 + 17 * g.k_h * g.k_w
    return -(-g.in_c // LANES) * g.out_h * (20 + 8 * g.in_w + g.out_w * window)
