"""Brings channels of int8 sums into the range where the microcontrollers' short requantisation is exact."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.fixed_point import requantize
from twinfer.runtime.graph import Array

#: Shifts that tw_scaled (kernels_c/isa/dsp/dsp.h) takes, as TFLite signs them, and the bound of its sums.
SHIFTS = (-22, -1)
BOUND = 1 << 30

#: The farthest shift to the right that tw_scaled_either takes, as TFLite signs it.
EITHER = -28


class Channels(NamedTuple):
    """A layer's output channels: weights int8 or int16 [out, k], bias int32 [out] with the input zero point folded in,
    and the multiplier int32 [out] and shift int8 [out] of the sum. Outputs get ``out_zero`` added, then are clamped to
    ``low..high``."""

    weights: Array
    bias: Array
    mult: Array
    shift: Array
    out_zero: int
    low: int
    high: int

    def part(self, first: int, end: int) -> Channels:
        """Some of the channels."""
        some = slice(first, end)
        return self._replace(
            weights=self.weights[some], bias=self.bias[some], mult=self.mult[some], shift=self.shift[some]
        )

    def ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The least and the greatest sum of each channel over all int8 inputs, before int32 wraps it."""
        w, bias = self.weights.astype(np.int64), self.bias.astype(np.int64)
        up, down = w.clip(min=0).sum(axis=1), w.clip(max=0).sum(axis=1)
        return bias - 128 * up + 127 * down, bias + 127 * up - 128 * down

    @property
    def end(self) -> dict[str, int]:
        """What outputs get added and are clamped to: the params ``tw_epilogue_s8``."""
        return {"zero": self.out_zero, "low": self.low, "high": self.high}

    def outputs(self, sums: Array) -> NDArray[np.int64]:
        """The int8 results of sums [..., out]."""
        return (requantize(sums, self.mult, self.shift) + self.out_zero).clip(self.low, self.high)


def fast_channels(c: Channels) -> Channels | None:
    """Channels with the same outputs, whose sums stay below 2^30 and whose shifts lie in -22..-1; None if one cannot.

    A channel whose output does not depend on the input (a dead one: no weights, a huge bias, a multiplier of 0) gets
    weights of 0 and a bias that gives the output.
    """
    least, most = c.ends()
    first, last = c.outputs(least), c.outputs(most)
    fixed = (_monotone(c, least, most) & (first == last)) | (c.mult == 0)
    small = (np.maximum(-least, most) < BOUND) & (c.shift >= SHIFTS[0]) & (c.shift <= SHIFTS[1]) & (c.mult > 0)
    if not (fixed | small).all():
        return None
    fixed &= ~small  # small channels stay as they are: a layer with one scale keeps it
    said = 4 * (first - c.out_zero)  # halved by mult, halved again by shift
    return Channels(
        np.where(fixed[:, None], 0, c.weights).astype(c.weights.dtype),
        np.where(fixed, said, c.bias).astype(np.int32),
        np.where(fixed, 1 << 30, c.mult).astype(np.int32),
        np.where(fixed, -1, c.shift).astype(np.int8),
        *(c.out_zero, c.low, c.high),
    )


def _monotone(c: Channels, least: NDArray[np.int64], most: NDArray[np.int64]) -> Array:
    """Whether nothing between a channel's ends wraps: neither sum, left shift, nor the addition of the zero point."""
    largest = np.maximum(~least, most)  # each sign has 2^31 values
    room = (1 << 31) - 1 - 128 * (c.shift >= 0)  # a right shift leaves room for the zero point
    return np.asarray(largest <= room >> np.maximum(c.shift, 0).astype(np.int64))
