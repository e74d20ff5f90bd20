"""A histogram that grows with the values that it sees. Every count stays in a bin that holds its value."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

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
        self._reach(float(np.abs(flat).max()))
        at = np.floor(flat / self.width).astype(np.int64) + HALF
        self.counts += np.bincount(at, minlength=2 * HALF)

    def _reach(self, peak: float) -> None:
        """Widen the bins until ``peak`` is inside: peak < HALF * width."""
        needed = math.frexp(peak)[1] - HALF.bit_length() + 1
        if self.exponent is None:
            self.exponent = needed
        while self.exponent < needed:
            pairs = self.counts.reshape(-1, 2).sum(1)
            self.counts = np.zeros_like(self.counts)
            self.counts[HALF // 2 : HALF // 2 + HALF] = pairs
            self.exponent += 1

    def centres(self) -> NDArray[np.float64]:
        """The middle of every bin, [2 * HALF]."""
        return np.asarray((np.arange(-HALF, HALF) + 0.5) * self.width, np.float64)

    def edges(self) -> NDArray[np.float64]:
        """Where the bins begin and the last one ends, [2 * HALF + 1]."""
        return np.asarray(np.arange(-HALF, HALF + 1) * self.width, np.float64)
