"""The weights of a step as codings see them: slices of int8 values in the array that ``lower`` packed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twinfer.runtime.constant import Constant
from twinfer.runtime.graph import Array
from twinfer.runtime.plan.codes import Blocks, Code
from twinfer.runtime.program import Call, Step, Weights

#: Bytes of decoded weights that a slice of a layer should not exceed.
SLICE_BYTES = 2048


class PackedWeights(NamedTuple):
    """A step whose weights may be coded."""

    step: Step
    constant: Constant
    layout: Weights

    @property
    def call(self) -> Call:
        return self.step.call

    @property
    def array(self) -> Array:
        return self.constant.array

    @property
    def rows(self) -> Array:
        """The array's bytes, int8 [rows, head + weights + tail]."""
        return np.ascontiguousarray(self.array).reshape(-1).view(np.int8).reshape(self.layout.rows, -1)

    @property
    def ends(self) -> Array | None:
        """Heads and tails of all rows in a row; None if there are none."""
        rows, w = self.rows, self.layout
        if not w.head + w.tail:
            return None
        return np.concatenate([rows[:, : w.head], rows[:, rows.shape[1] - w.tail :]], axis=1).reshape(-1)

    def blocks(self, channels: int) -> Blocks:
        """The weights in slices of so many channels (0: whole), int8 [slices, rows, n].

        A lone row is filled up to a multiple of 8 with its last weight, and so is the slice of the remaining channels.
        """
        w, body = self.layout, self._weights()
        if channels:
            share, unit = body.size // self.shares, w.unit
            body = body.reshape(-1)
            full = body[: self.out // unit * unit * share].reshape(-1, channels * share)
            rest = body[None, body.size - unit * share :] if self.out % unit else full[:0]
            missing = full.shape[1] - rest.shape[1]
            body = np.concatenate([full, np.pad(rest, ((0, 0), (0, missing)), mode="edge")])
        blocks: Blocks = body.reshape(len(body) if channels else 1, w.rows, -1)
        missing = -blocks.shape[2] % 8 if w.rows == 1 else 0
        return np.pad(blocks, ((0, 0), (0, 0), (0, missing)), mode="edge")

    def _weights(self) -> Blocks:
        """All weights as bytes, int8 [rows, n]."""
        rows, w = self.rows, self.layout
        body = np.ascontiguousarray(rows[:, w.head : rows.shape[1] - w.tail])
        if not w.halves:
            return body
        half = body.view("<i2").astype(np.int32)
        low = half.astype(np.int8)
        return np.stack([low, (half - low) >> 8], axis=-1).astype(np.int8).reshape(w.rows, -1)

    @property
    def out(self) -> int:
        """Output channels; 0 for a kernel whose params do not say."""
        return int(self.call.params.get("out", 0))  # type: ignore[arg-type]

    @property
    def shares(self) -> int:
        """Channels that the weights hold, padding included."""
        unit = self.layout.unit
        return self.out if self.layout.overlap else -(-self.out // unit) * unit

    def channels(self, most: int = 0) -> int:
        """Channels per slice: at most so many or, if that is 0, as many as fit ``SLICE_BYTES``; at least the four that
        kernels take at a time if it can be cut so, else the fewest; 0 for a layer that is not cut."""
        unit = self.layout.unit
        if not unit or self.call.params.get("batches") != 1 or (not most and self.array.nbytes <= SLICE_BYTES):
            return 0
        full = self.out // unit * unit
        fits = [n for n in range(unit, full + 1, unit) if full % n == 0 and n < self.out]
        small = [
            n for n in fits if n <= 4 or (n <= most if most else n * self.array.nbytes // self.shares <= SLICE_BYTES)
        ]
        return max(small, default=fits[0] if fits else 0)


class CodedWeights(NamedTuple):
    """A layer's weights in one coding, in slices of so many channels (0: whole)."""

    layer: PackedWeights
    code: Code
    channels: int

    @property
    def slices(self) -> int:
        """How many full slices there are."""
        return self.layer.out // self.channels if self.channels else 1

    @property
    def nbytes(self) -> int:
        """Bytes in flash."""
        return self.code.nbytes + (0 if self.layer.ends is None else self.layer.ends.nbytes)
