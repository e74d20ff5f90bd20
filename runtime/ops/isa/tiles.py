"""Weights and ends of sums as the kernels for 32 registers read them: kernels_c/isa/tiles/tile_s8.h."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.constant import Constant, bias, requantize, weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.core.channels import mults_of
from twinfer.runtime.ops.core.packing import padded
from twinfer.runtime.ops.core.requantize import Channels
from twinfer.runtime.ops.isa.short import channels_s8
from twinfer.runtime.params import Param
from twinfer.runtime.program import Argument
from twinfer.runtime.variant import accept

#: Pixels and channels of a tile.
PIXELS, CHANNELS = 4, 4

#: The layout of weights.
TILES = "packed [out / 4][k][4]"

#: The greatest multiplier, and a bound that is none.
_MOST, _FAR = (1 << 31) - 1, np.int64(1) << 40

#: The most that outputs are shifted to the right: so 9 bits before them, with the zero point, fit 32.
_RIGHT = 22

_REASON = "the upper half of a product does not tell all outputs of a channel apart"


@dataclass(frozen=True)
class Ends:
    """How sums of each channel become outputs: the params ``tw_tiles_end``, what sums begin with, and multiplier,
    rounding and dip, int32 [out]."""

    end: dict[str, int]
    bias: Array
    mult: Array
    rounding: Array
    dip: Array

    @property
    def mults(self) -> int:
        """How many multipliers are kept."""
        return mults_of(self.mult, self.rounding, self.dip)

    @property
    def params(self) -> dict[str, Param]:
        """The params ``end`` and ``mults`` of a kernel."""
        return {"end": self.end, "mults": self.mults}

    def constants(self) -> tuple[Argument, ...]:
        """Inputs 2 to 5 of a kernel."""
        kept = [self.mult, self.rounding, *([self.dip] if self.end["dips"] else [])]
        own = [padded(each, CHANNELS) if self.mults > 1 else each[:1] for each in kept]
        constants: list[Constant | None] = [bias(padded(self.bias, CHANNELS)), *map(requantize, own)]
        return (*constants, *(() if self.end["dips"] else (None,)))


def layer_of(node: Node, w: Array, starts: Array) -> tuple[tuple[Argument, ...], dict[str, Param]]:
    """Inputs 1 to 5 of a kernel and its params ``end`` and ``mults``, for weights int8 [out, k] and biases int32 [out].

    Declined if the short ends are not exact.
    """
    channels, ends = ends_for(node, w, starts)
    return (weights(packed_s8(channels.weights), TILES), *ends.constants()), ends.params


def ends_for(node: Node, w: Array, starts: Array) -> tuple[Channels, Ends]:
    """The channels of such weights and biases, and their ends; Declined if these are not exact."""
    channels = channels_s8(node, w, starts)
    return channels, ends_of(channels)


def packed_s8(w: Array) -> Array:
    """Weights int8 [out, k] as [out / 4][k][4]."""
    fours = padded(w, CHANNELS)
    return np.ascontiguousarray(fours.reshape(-1, CHANNELS, w.shape[1]).transpose(0, 2, 1))


def ends_of(c: Channels) -> Ends:
    """Ends that give what ``c.outputs`` gives, for every sum that int8 inputs can lead to; Declined if there are none.

    The range of ``c`` is that of ``fast_channels``.
    """
    shift, starts, (least, most) = c.shift.astype(np.int64), c.bias.astype(np.int64), c.ends()
    live = least < most
    largest = int(shift[live].max()) if live.any() else -1
    bits = int(max(most.max(), (-least).max(), 1)).bit_length()
    up = min(31 - bits, _RIGHT + 1 + largest)
    right = up - 1 - largest
    accept(up >= 0 and right >= 1, _REASON)
    mult = np.minimum(np.rint(np.ldexp(c.mult.astype(float), shift - largest)), _MOST).astype(np.int64)
    usual = (2 * c.out_zero + 1) << (right - 1)
    bounds = np.where(live, _bounds(c, mult, up, right), usual)
    accept(bool((bounds[:, 0] <= bounds[:, 1]).all()), _REASON)
    above, below = _chosen(usual, bounds[0]), _chosen(usual, bounds[1])
    both = np.array([bounds[:, 0].max(0), bounds[:, 1].min(0)])
    dips = bool((both[0] > both[1]).any())
    if not dips:
        above = below = _chosen(usual, both)
    said = (c.outputs(starts) - c.out_zero) << (right + 1 - up)  # halved by mult
    values = (np.where(live, starts, said), np.where(live, mult, _MOST), above, above - below)
    end = {"up": up, "right": right, "dips": int(dips), "low": c.low, "high": c.high}
    return Ends(end, *(each.astype(np.int32) for each in values))


def _bounds(c: Channels, mult: Array, up: int, right: int) -> NDArray[np.int64]:
    """The least and the greatest rounding with which all outputs are right, [2, 2, out]: from sums of 0 on, and below.

    Outputs grow with the sum. So all are right if each begins at the right sum: that bounds the rounding from below,
    and the sum before it from above.
    """
    least, most = c.ends()
    values = np.arange(c.low + 1, c.high + 1, dtype=np.int64)[:, None]
    above, shift = values - c.out_zero, -c.shift.astype(np.int64)
    once = (above << shift) - (1 << (shift - 1)) + (above <= 0)  # what has been rounded once; halves go away from zero
    first = -(((1 << 30) - (once << 31)) // c.mult)  # the least sum that gives at least that
    bounds = []
    reached, before = first.clip(least, most), (first - 1).clip(least, most)
    enough = np.where(first <= most, (values << right) - ((reached << up) * mult >> 32), -_FAR)
    little = np.where(first > least, (values << right) - ((before << up) * mult >> 32) - 1, _FAR)
    for side in (0, 1):
        low = np.where((reached < 0) == side, enough, -_FAR).max(0, initial=-_FAR)
        high = np.where((before < 0) == side, little, _FAR).min(0, initial=_FAR)
        bounds.append((low, high))
    return np.array(bounds)


def _chosen(usual: int, bounds: Array) -> Array:
    """Of roundings between bounds [2, out] the one next to the usual one; the same for all channels if there is one."""
    low, high = bounds
    if low.max() <= high.min():
        low, high = low.max(), high.min()
    return np.full(bounds.shape[1], np.clip(usual, low, high), np.int64)
