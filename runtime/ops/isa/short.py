"""Sums that microcontrollers end with one multiplication; variants that cannot have them decline."""

from __future__ import annotations

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.core import requantize, requantize_s16
from twinfer.runtime.ops.core.channels import channels_of
from twinfer.runtime.ops.core.requantize import SHIFTS
from twinfer.runtime.variant import accept, present

_REASON = "a channel's sums or multiplier do not fit the short requantisation"


def channels_s8(node: Node, w: Array, bias: Array) -> requantize.Channels:
    """The channels of int8 activations, weights int8 [out, k] and bias int32 [out]."""
    return present(requantize.fast_channels(channels_of(node, w, bias)), _REASON)


def channels_s16(node: Node, w: Array) -> requantize_s16.Channels:
    """The channels of int16 activations and weights int8 [out, k]."""
    return present(requantize_s16.short_channels(node, w), _REASON)


def scaled_s8(mult: int, shift: int, zero: int) -> dict[str, int]:
    """The params of ``tw_scaled`` (kernels_c/isa/dsp/dsp.h): a multiplier, and a rounding that adds the zero point."""
    accept(SHIFTS[0] <= shift <= SHIFTS[1], f"the shift is {shift}, not in {SHIFTS[0]}..{SHIFTS[1]}")
    return {"mult": mult, "right": -shift, "rounding": (2 * zero + 1) << -shift >> 1}
