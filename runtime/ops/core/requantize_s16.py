"""Brings channels of int16 * int8 sums to a form that microcontrollers end with one multiplication."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.fixed_point import reduced_multiplier, requantize_wide
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.core.activation import quantized_range
from twinfer.runtime.ops.core.channels import constant_bias, multipliers, narrow_sums
from twinfer.runtime.ops.core.packing import padded

#: Shifts that a multiplier of 31 bits can absorb, as TFLite signs them, and the least with which sums may be saturated.
SHIFTS, SATURATED = (-17, -1), -14

#: Greatest magnitude of an activation; bound of a chunk's sums and of a bias where chunks are added up.
MOST, BOUND = 1 << 15, 1 << 30


class Channels(NamedTuple):
    """A layer's output channels: weights int8 [out, k], bias int32 [out], and the multiplier int32 [out]: an output is
    sum * mult / 2^32 rounded half up, clamped to ``low..high``. Sums that leave 32 bits are saturated to them."""

    weights: Array
    bias: Array
    mult: Array
    low: int
    high: int

    def part(self, first: int, end: int) -> Channels:
        """Some of the channels."""
        some = slice(first, end)
        return self._replace(weights=self.weights[some], bias=self.bias[some], mult=self.mult[some])

    @property
    def limits(self) -> dict[str, int]:
        """What outputs are clamped to: the params ``tw_limits``."""
        return {"low": self.low, "high": self.high}

    @property
    def fit(self) -> bool:
        """Whether no sum leaves 32 bits."""
        return bool((reach(self.weights, self.bias) < 1 << 31).all())

    def chunk(self, size: int) -> int:
        """Groups of ``size`` weights whose sums fit 32 bits and are then added to a total; all if the total fits."""
        w = padded(np.abs(self.weights.astype(np.int64)), size, 1)
        groups = MOST * w.reshape(len(w), -1, size).sum(2)
        count = int(groups.shape[1])
        while not self.fit and np.add.reduceat(groups, np.arange(0, groups.shape[1], count), axis=1).max() >= BOUND:
            count = -(-count // 2)
        return count


def reach(w: Array, bias: Array) -> NDArray[np.int64]:
    """A bound of every sum's magnitude, [out]: weights int8 [out, k], bias [out]."""
    return np.asarray(np.abs(bias.astype(np.int64)) + MOST * np.abs(w.astype(np.int64)).sum(1))


def _within(values: Array, bits: int) -> bool:
    return bool(values.min() >= -(1 << bits) and values.max() <= 1 << bits)


def short_channels(node: Node, w: Array) -> Channels | None:
    """Channels of weights int8 [out, k] with the same outputs as the node's; None if there are none.

    A multiplier of 15 bits with a shift of 16..32 equals one of 31 bits with a shift of 32. A sum may be saturated to
    32 bits if its output is beyond int16 anyway. A channel whose output does not depend on the input gets weights of 0
    and a bias that gives the output.
    """
    bias = constant_bias(node, len(w))
    (mult, shift), (low, high) = multipliers(node, len(w)), quantized_range(node, node.output)
    if bias is None or narrow_sums(node) or not _within(bias, 46) or shift.max() > 7:
        return None
    reduced, right = reduced_multiplier(mult), 15 - shift.astype(np.int64)
    most = np.minimum(reach(w, bias), 1 << 47)
    whole = (most < 1 << 47) & (most * reduced >> right < (1 << 31) - 1)  # no output wraps
    saturable = whole & (shift >= SATURATED) & (np.abs(bias) < BOUND)
    short = (mult > 0) & (shift >= SHIFTS[0]) & (shift <= SHIFTS[1]) & ((most < 1 << 31) | saturable)
    first, last = (requantize_wide(end, mult, shift).clip(low, high) for end in (-most, most))
    fixed = ~short & ((whole & (first == last)) | (mult == 0))
    if not (short | fixed).all():
        return None
    return Channels(
        np.where(fixed[:, None], 0, w).astype(np.int8),
        np.where(fixed, 4 * first, bias).astype(np.int32),
        np.where(fixed, 1 << 30, reduced << (32 - right).clip(0, 16)).astype(np.int32),
        *(low, high),
    )
