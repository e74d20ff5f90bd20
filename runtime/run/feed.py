"""The input of a model, given row by row: for cameras and spectrograms, where the whole never exists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from twinfer.kernels_c import ffi
from twinfer.runtime.errors import InvalidArgumentError, NotReadyError
from twinfer.runtime.plan.plan import Plan


class RowFeed:
    """Takes the rows of a plan's input, from the first on. An engine says how it begins, takes a row and finishes."""

    def __init__(
        self, plan: Plan, begin: Callable[[], object], push: Callable[[Any], int], finish: Callable[[], object]
    ) -> None:
        if plan.fed is None or plan.fed.feed is None:
            raise InvalidArgumentError("the plan takes its input as a whole: plan with Options(input_rows=True)")
        self._begin, self._push, self._finish = begin, push, finish
        self._feed, self._source = plan.fed.feed, plan.fed.feed.out
        self._row = self._source.size // self._feed.height
        self._wanted: int | None = None

    def begin(self) -> None:
        """Forget the rows that were given."""
        self._begin()
        self._wanted = self._feed.wanted

    def push(self, row: Any) -> int:
        """Take the next row and compute what it allows; how many more are wanted. Rows beyond these change nothing.

        Raises InvalidArgumentError for an array of another type or size, NotReadyError before ``begin``.
        """
        if self._wanted is None:
            raise NotReadyError(f"{self._source}: call begin() before its first row")
        array = np.ascontiguousarray(row)
        if array.dtype != self._source.dtype or array.size != self._row:
            raise InvalidArgumentError(
                f"a row {array.dtype}{list(array.shape)} does not fit {self._source}: give {self._row} elements of "
                f"{self._source.dtype}"
            )
        if self._wanted:
            self._wanted = self._push(ffi.cast("const char *", ffi.from_buffer(array)))
        return self._wanted

    def finish(self) -> None:
        """Compute what follows the last row. Raises InvalidArgumentError while rows are wanted."""
        if self._wanted is None:
            raise NotReadyError(f"{self._source}: call begin() and push_row() before finish()")
        if self._wanted:
            raise InvalidArgumentError(f"{self._source}: {self._wanted} more rows are wanted before finish()")
        self._finish()
        self._wanted = None
