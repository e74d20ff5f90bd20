"""CONV_2D of int8 on the DSP extension with weights of 16 bits: kernels_c/conv/conv2d_halves_dsp.h."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._layer import ONE_CHANNEL, convolution_of
from twinfer.runtime.ops.core.packing import padded
from twinfer.runtime.ops.core.requantize import Channels
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.ops.isa.dsp import PIXELS
from twinfer.runtime.ops.isa.short import channels_s8
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept, present

#: The right shifts that the kernel has for all outputs of a layer; where negative sums have less, the first alone. Of
#: 86 layers of the corpus the first suits 81.
SHIFTS = (12, 15)

#: The bounds of a weight and of a sum.
HALF, WORD = 1 << 15, 1 << 31

#: The layout of weights.
LAYOUT = "packed [out / 2]: two starts, [k / 2][2][2], two ends"


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights; also for DEPTHWISE_CONV_2D of one input channel."""
    accept(node.input(1).type == "INT8", "its weights are packed, and would take sixteen bits")
    layer = convolution_of(node)
    g, c = layer.window, channels_s8(layer.node, layer.rows, layer.bias)
    accept(g.out_c % 2 == 0, f"it has {g.out_c} output channels, an odd number")
    w = padded(c.weights[:, _order(g)].astype(np.int64), 4, 1)
    signs = c.low < c.out_zero
    shift = present(_shift(c, w, SHIFTS[:1] if signs else SHIFTS), "weights or sums do not fit when they are scaled")
    sizes = {"k4": w.shape[1], "in_zero": node.input(0).zero, "signs": int(signs), "shift": shift}
    params: dict[str, Param] = {"window": g.params, "end": c.end, **sizes}
    rows = _packed(c, w, shift)
    scratch = (2 * PIXELS + 1) * w.shape[1]
    return layer.call("tw_conv2d_halves_dsp_s8", params, (node.input(0), weights(rows, LAYOUT)), scratch, PIXELS)


def _order(g: Window) -> Array:
    """The taps of a window [k_h, k_w * in_c] as they are taken: whole words of all rows, then what is left of them."""
    taps = np.arange(g.k_h * g.k_w * g.in_c).reshape(g.k_h, -1)
    whole = taps.shape[1] // 4 * 4
    return np.concatenate([taps[:, :whole].reshape(-1), taps[:, whole:].reshape(-1)])


def _shift(c: Channels, w: Array, shifts: Sequence[int]) -> int | None:
    """The first of the shifts for which the numbers of all channels fit; None if there is none."""
    most = np.maximum(*map(np.abs, c.ends()))
    for shift in shifts:
        k = 1 + shift + c.shift.astype(np.int64)
        if k.min() >= 2 and np.abs(w << k[:, None]).max() < HALF and (most << k).max() < WORD:
            return shift
    return None


def _packed(c: Channels, w: Array, shift: int) -> Array:
    """int32 [out / 2, 2 + k4 + 6], as ``tw_dsp_halves`` says."""
    k = 1 + shift + c.shift.astype(np.int64)
    scaled, starts = w << k[:, None], c.bias.astype(np.int64) << k
    added = (1 << (k - 2)) + (1 << (shift - 1)) + (c.out_zero << shift)
    ends = np.stack([c.mult, added, 1 << (k - 1)], 1).reshape(-1, 6)
    words = scaled.reshape(len(w), -1, 4)[..., [0, 2, 1, 3]].reshape(len(w) // 2, 2, -1, 2).transpose(0, 2, 1, 3)
    halves = np.ascontiguousarray(words, "<i2").view("<i4").reshape(len(w) // 2, -1)
    return np.concatenate([starts.reshape(-1, 2), halves, ends], 1).astype("<i4")


VARIANT = Variant("halves_dsp", ("CONV_2D",), frozenset({"dsp"}), lower, ("INT8",), ONE_CHANNEL, larger=1)
