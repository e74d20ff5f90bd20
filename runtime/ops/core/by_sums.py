"""Calls that add up an image row by row, in place of those that need all of it: kernels_c/core/part.h."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.rows import Rows

#: About how many instructions a call takes for every sum, before and behind its additions.
SETUP = 12


def with_sums(call: Call, kernel: str, params: Mapping[str, Param], size: int, channels: int, units: int) -> Call:
    """A call over ``size`` elements and, for layers by rows, ``kernel`` with these ``params`` and its ``part`` of them.

    The kernel keeps ``channels`` sums of 32 bits; rows of the input must be multiples of ``units`` elements.
    """
    part: dict[str, Param] = {"part": {"first": 0, "count": size}}
    rows = Rows(sums="part", units=units, setup=SETUP * channels)
    other = replace(call, kernel=kernel, params={**params, **part}, scratch=4 * channels, rows=rows, rows_call=None)
    return replace(call, rows_call=other)
