"""What calibration notes of one tensor: range, moving average of ranges, histogram, and mean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.quantize.affine import Range
from twinfer.runtime.graph import Array, Tensor

#: Bins on either side of zero; even, so that pairs merge.
HALF = 2048


class Histogram:
    """Counts of values in 2 * HALF bins of equal width around zero; exact zeros are counted apart.

    The width is the least power of two that reaches the greatest magnitude seen. When it doubles, every bin of the new
    width is two of the old: the counts are those of one pass with the final width, in whatever order the values came.
    (PyTorch's HistogramObserver grows by interpolation, onnxruntime's by appending bins of the first width.)
    """

    def __init__(self) -> None:
        self.counts: NDArray[np.int64] = np.zeros(2 * HALF, np.int64)
        self.zeros = 0
        self.exponent: int | None = None  # the width is 2**exponent; None: only zeros were seen

    @property
    def width(self) -> float:
        return 0.0 if self.exponent is None else math.ldexp(1.0, self.exponent)

    def add(self, values: NDArray[np.float32]) -> None:
        """Count finite values of any shape."""
        flat = values.reshape(-1).astype(np.float64)
        flat = flat[flat != 0]
        self.zeros += values.size - flat.size
        if not flat.size:
            return
        needed = math.frexp(float(np.abs(flat).max()))[1] - HALF.bit_length() + 1  # so that every |x| < HALF * width
        if self.exponent is None:
            self.exponent = needed
        while self.exponent < needed:
            pairs = self.counts.reshape(-1, 2).sum(1)
            self.counts = np.zeros_like(self.counts)
            self.counts[HALF // 2 : HALF // 2 + HALF] = pairs
            self.exponent += 1
        at = np.floor(flat / self.width).astype(np.int64) + HALF
        self.counts += np.bincount(at, minlength=2 * HALF)

    def centres(self) -> NDArray[np.float64]:
        return np.asarray((np.arange(-HALF, HALF) + 0.5) * self.width, np.float64)

    def edges(self) -> NDArray[np.float64]:
        """Where the bins begin and the last one ends, [2 * HALF + 1]."""
        return np.asarray(np.arange(-HALF, HALF + 1) * self.width, np.float64)


#: The least weight of a new batch in the moving average of the range. PyTorch's MovingAverageMinMaxObserver uses it
#: from the second batch on. Here the first 1 / MOVING batches count alike, so that the first one does not decide.
MOVING = 0.01

#: Samples of which the ends are kept.
TOPS = 12

#: Samples per batch. An average over the ranges of single samples would clip something in every other sample.
BATCH = 16


@dataclass
class Observed:
    """What one tensor was seen to hold: range, moving average of the batches' ranges, histogram, and mean.

    ``batch`` is the range of the batch that is being read, ``average`` that of the batches before. ``total`` is the sum
    over all samples, with the tensor's shape: bias correction needs the mean of every element. ``ranges`` keeps the
    ranges that methods have chosen, by method and integer type. ``far``: whether masks were left out, below and above
    (``masks``). ``peak`` is the least of the greatest values of rows, for what SOFTMAX reads.
    ``lows`` and ``highs`` are the ends of the TOPS samples that reach farthest, the farthest first.
    ``lost``: the integer types that would lose it for what is done with it next (``lost``).
    """

    low: float = np.inf
    high: float = -np.inf
    batch: Range = (np.inf, -np.inf)
    average: Range = (0.0, 0.0)
    count: int = 0
    histogram: Histogram = field(default_factory=Histogram)
    total: NDArray[np.float64] | None = None
    ranges: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    far: tuple[bool, bool] = (False, False)
    peak: float = np.inf
    lows: list[float] = field(default_factory=list)
    highs: list[float] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)

    def add(self, value: Array) -> None:
        """One sample's value, finite and not empty."""
        self.ranges.clear()
        low, high = float(value.min()), float(value.max())
        self.low, self.high = min(self.low, low), max(self.high, high)
        self.lows, self.highs = sorted([*self.lows, low])[:TOPS], sorted([*self.highs, high], reverse=True)[:TOPS]
        self.histogram.add(value)
        self.total = value.astype(np.float64) if self.total is None else self.total + value
        self.count += 1
        self.batch = min(self.batch[0], low), max(self.batch[1], high)
        if self.count % BATCH == 0:
            share = max(MOVING, 1 / (self.count // BATCH))
            (low, high), (new_low, new_high) = self.average, self.batch
            self.average = low + share * (new_low - low), high + share * (new_high - high)
            self.batch = np.inf, -np.inf

    @property
    def moving(self) -> Range:
        """The moving average of the ranges of whole batches; without one, the range of all that was seen."""
        return self.average if self.count >= BATCH else (self.low, self.high)

    @property
    def mean(self) -> NDArray[np.float64]:
        """The mean of every element over the samples; zero if there were none."""
        return np.zeros(1) if self.total is None else self.total / self.count


#: What calibration saw of every float tensor that is not a constant.
Calibration = Mapping[Tensor, Observed]
