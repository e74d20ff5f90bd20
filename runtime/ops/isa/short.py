"""Sums that end with one multiplication; variants that cannot have them decline."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.core import requantize, requantize_s16
from twinfer.runtime.ops.core.channels import channels_of
from twinfer.runtime.ops.core.packing import padded
from twinfer.runtime.ops.core.requantize import SHIFTS
from twinfer.runtime.variant import accept, present

_REASON = "a channel's sums or multiplier do not fit the short requantisation"


def channels_s8(node: Node, w: Array, bias: Array) -> requantize.Channels:
    """The channels of int8 activations, weights int8 [out, k] and bias int32 [out]."""
    return present(requantize.fast_channels(channels_of(node, w, bias)), _REASON)


def ends_of(c: requantize.Channels) -> Array:
    """int32 [out / 2, 5], TW_DSP_ENDS: both biases, doubled, both multipliers, both right shifts in the low bytes."""
    starts, mult, shift = (padded(a, 2).reshape(-1, 2) for a in (2 * c.bias, c.mult, -c.shift.astype(np.int32)))
    shift = np.maximum(shift, 1)
    return np.column_stack([starts, mult, shift[:, 0] | shift[:, 1] << 8]).astype(np.int32)


def channels_s16(node: Node, w: Array) -> requantize_s16.Channels:
    """The channels of int16 activations and weights int8 [out, k]."""
    return present(requantize_s16.short_channels(node, w), _REASON)


def channels_in_32_bits(node: Node, w: Array) -> requantize_s16.Channels:
    """The same; Declined unless all sums fit 32 bits."""
    channels = channels_s16(node, w)
    accept(channels.fit, "sums may leave 32 bits")
    return channels


def need_words(w: Array, starts: Array) -> None:
    """Declined unless sums of int16 by weights int8 [..., k] that begin with ``starts`` [...] fit 32 bits."""
    most = int(requantize_s16.reach(w.reshape(-1, w.shape[-1]), starts.reshape(-1)).max())
    accept(most < 1 << 31, f"sums up to {most} do not fit 32 bits")


def top(mult: int, right: int) -> int:
    """A multiplier of 15 bits and its shift to the right as one that keeps the upper 32 bits of products."""
    least, most = (15 - shift for shift in reversed(requantize_s16.SHIFTS))
    accept(least <= right <= most, f"a shift to the right by {right} is not in {least}..{most}")
    return mult << (32 - right)


def scaled_s8(mult: int, shift: int, zero: int) -> dict[str, int]:
    """The params of ``tw_scaled`` (kernels_c/isa/dsp/dsp.h): a multiplier, and a rounding that adds the zero point."""
    accept(SHIFTS[0] <= shift <= SHIFTS[1], f"the shift is {shift}, not in {SHIFTS[0]}..{SHIFTS[1]}")
    return {"mult": mult, "right": -shift, "rounding": (2 * zero + 1) << -shift >> 1}
