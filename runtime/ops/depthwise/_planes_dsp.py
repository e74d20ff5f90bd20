"""DEPTHWISE_CONV_2D on the DSP extension, channel by channel: kernels_c/depthwise/depthwise_conv2d_planes_dsp.h."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twinfer.runtime.constant import per_channel, weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._layer import Convolution, convolution_of
from twinfer.runtime.ops.core.packing import ENDS
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.ops.depthwise._planes import axes, is_turned, taps_of
from twinfer.runtime.ops.isa.short import channels_s8, channels_s16
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import accept

#: Most bytes of scratch.
MOST_SCRATCH = 1 << 14


def lower_s8(node: Node, target: Target) -> Call:
    """The call for int8 activations and constant weights."""
    layer, w = _layer(node, _plain_s8)
    c = channels_s8(node, w, layer.bias)
    kernel = f"tw_depthwise_conv2d_planes{layer.stored[0]}_dsp_s8"
    return _call(layer, kernel, c.weights, (2 * c.bias, c.mult, -c.shift), c.end)


def lower_s16(node: Node, target: Target) -> Call:
    """The same for int16 activations."""
    layer, w = _layer(node, _plain_s16)
    c = channels_s16(node, w)
    accept(c.fit, "sums do not fit 32 bits")
    ends = (c.bias, c.mult, np.zeros_like(c.mult))
    return _call(layer, "tw_depthwise_conv2d_planes_dsp_s16", c.weights, ends, {"zero": 0, **c.limits})


def _layer(node: Node, plain: Callable[[Window], float]) -> tuple[Convolution, Array]:
    """The node, and its weights [out_c, taps]; Declined if the kernels do not take it or plain C takes less."""
    layer = convolution_of(node, any_zero=True)
    g = layer.window
    axes(g)
    accept(instructions(g) < plain(g), "plain C takes fewer instructions")
    scratch = scratch_of(g)
    accept(scratch <= MOST_SCRATCH, f"it needs {scratch} bytes of scratch, {MOST_SCRATCH} are the limit")
    return layer, taps_of(layer).reshape(g.out_c, -1)


def _call(layer: Convolution, kernel: str, w: Array, ends: tuple[Array, ...], end: dict[str, int]) -> Call:
    node, g = layer.node, layer.window
    x = node.input(0)
    numbers = {"multiplier": g.out_c // g.in_c, "turned": int(is_turned(g))}
    params: dict[str, Param] = {"window": g.params, "end": end, **numbers, "in_zero": x.zero}
    inputs = (x, weights(w), per_channel(np.stack(ends, 1).astype(np.int32), ENDS))
    same = (g.in_h, g.in_w, g.in_c, g.dilation_h, g.dilation_w) == (g.out_h, g.out_w, g.out_c, 1, 1)
    rows, outputs, stored = g.by_rows(setup=int(_fixed(g))), (node.output,), layer.stored[1]
    return Call(
        kernel, params, inputs, outputs, scratch_of(g), inplace=(0,) if same else (), macs=layer.macs, weights=stored,
        rows=rows,
    )  # fmt: skip


def scratch_of(g: Window) -> int:
    """Bytes of turned weights and ring; the last window may be read one element beyond its end."""
    lines, along = axes(g)
    turned = min(lines.taps, lines.out) * -(-lines.taps * along.taps // 2) * 2
    return 4 * -(-(g.out_c // g.in_c * turned + along.columns * lines.taps + 1) // 2)


def _fixed(g: Window) -> float:
    """Instructions of a call before any line: the channels' weights and empty rings."""
    lines, along = axes(g)
    turned = min(lines.taps, lines.out) * (10 + 5 * lines.taps * along.taps)
    ring = 1.5 * along.columns * lines.taps
    return (g.in_c * (60 + ring) + g.out_c * turned) * g.dilation_h * g.dilation_w


def instructions(g: Window) -> float:
    """What an image takes, about."""
    lines, along = axes(g)
    count = (lines.out - 1) * min(lines.stride, lines.taps) + lines.taps
    kept = count * (20 * along.dilation + 3 * along.extent)
    window = 38 + 9.5 * -(-lines.taps * along.taps // 2)
    rows = lines.out * along.dilation * (35 + -(-along.out // along.dilation // 4) * window)
    return _fixed(g) + g.in_c * kept + g.out_c * rows


def _plain_s8(g: Window) -> float:
    """The same in plain C, which computes two outputs of a row at a time and gathers those that see padding."""
    pairs, taps = -(-g.out_w // 2), g.k_h * g.k_w
    tap = 6.5 if g.pad_h or g.pad_w else 5.5
    return g.out_h * g.out_c * (18 * g.out_w + pairs * taps * tap)


def _plain_s16(g: Window) -> float:
    """The same of int16, which plain C takes as a convolution with groups."""
    return g.out_h * g.out_w * g.out_c * (85 + 3.5 * g.k_h * g.k_w)
