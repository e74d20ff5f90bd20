"""The params of a call that computes some rows: which members differ from those for all rows, and how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from twinfer.runtime.program import Layer

#: Values of ``Member.each`` that say what else is counted (kernels_c/run/rows.h).
SEEN, PADDING, FIRST = 0, -1, -2


class Member(NamedTuple):
    """A member of a call's params that is another one in a part of its rows; ``path`` leads there.

    It is ``each`` times the rows of the part that are among those from ``low`` to before ``high``. With SEEN it counts
    the rows that the part sees of the first source; with PADDING the rows of padding before these, where ``low`` are
    before row 0 and ``high`` is the stride; with FIRST it is ``high`` times the part's first row.
    """

    path: tuple[str | int, ...]
    low: int
    high: int
    each: int


def members_of(layer: Layer) -> Iterator[Member]:
    """The members of a layer's params that differ from part to part."""
    rows, params, height = layer.rows, layer.step.call.params, layer.height
    if rows.window:
        yield Member(("window", "in_h"), 0, 0, SEEN)
        yield Member(("window", "out_h"), 0, height, 1)
        yield Member(("window", "pad_h"), rows.pad, rows.stride, PADDING)
    for name in rows.counts:
        path = path_of(name)
        yield Member(path, 0, height, value_at(params, path) // height)
    if rows.sums:
        each = value_at(params, (rows.sums, "count")) // height
        yield Member((rows.sums, "first"), 0, each, FIRST)
        yield Member((rows.sums, "count"), 0, height, each)
    if rows.lines:
        low, lines = 0, cast(Sequence[int], params[rows.lines])
        for i, count in enumerate(lines):
            yield Member((rows.lines, i), low, low + count, 1)
            low += count


def path_of(name: str) -> tuple[str | int, ...]:
    """The path of a member by its name in ``Rows``."""
    return tuple(int(part) if part.isdigit() else part for part in name.split("."))


def value_at(params: Mapping[str, Any], path: Sequence[str | int]) -> int:
    """The value of a member."""
    value: Any = params
    for name in path:
        value = value[name]
    return int(value)
