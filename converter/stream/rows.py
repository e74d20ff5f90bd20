"""Which rows of a tensor are new in a step, which come from the step before, and which are computed anew."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

#: Rows [first, end) of a tensor along its time axis.
Range = tuple[int, int]

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Timed:
    """A tensor with time along ``axis``: ``rows`` rows per window, ``hop`` of them new in every step.

    Row j of a window is row j + hop of the window before, but for the first ``before`` and the last ``after`` rows:
    padding reaches into these, so every window has its own.
    """

    axis: int
    rows: int
    hop: int
    before: int = 0
    after: int = 0

    @property
    def new(self) -> int:
        """The first row that the window before does not have."""
        return self.rows - self.after - self.hop

    @property
    def reuses(self) -> bool:
        """Whether a step needs to compute fewer rows than the window has."""
        return self.before < self.new


@dataclass
class Need:
    """The rows of a tensor that a step reads, and where it gets them."""

    timed: Timed
    mask: Mask = field(init=False)

    def __post_init__(self) -> None:
        self.mask = np.zeros(self.timed.rows, np.bool_)

    def add(self, rows: Range) -> None:
        self.mask[max(rows[0], 0) : max(rows[1], 0)] = True

    @property
    def left(self) -> Range:
        """The rows at the start that are computed in every step."""
        return _hull(self.mask, 0, self.timed.before)

    @property
    def kept(self) -> Range:
        """The rows that the step before has left in the state."""
        first, end = _hull(self.mask, self.timed.before, self.timed.new)
        return (first, self.timed.new) if first < end else (self.timed.new, self.timed.new)

    @property
    def right(self) -> Range:
        """The rows at the end that are computed in every step; all that the next step needs in its state are there."""
        timed, (first, end) = self.timed, self.kept
        needed = _hull(self.mask, timed.new, timed.rows)
        if first == end:
            return needed
        return timed.new, max(needed[1], timed.rows - timed.after)

    @property
    def fresh(self) -> list[Range]:
        """The rows that a step computes."""
        return [rows for rows in (self.left, self.right) if rows[0] < rows[1]]


def _hull(mask: Mask, first: int, end: int) -> Range:
    """The least range that has all rows of the mask from ``first`` up to ``end``; empty if there are none."""
    places = np.flatnonzero(mask[first:end])
    return (first + int(places[0]), first + int(places[-1]) + 1) if places.size else (end, end)
