"""Merges the dimensions of operands that broadcast together, for the loops of kernels_c/core/loops.h."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from twinfer.runtime.op import Shape

#: Most loops of a kernel around its rows: TW_MAX_LOOPS.
LOOPS = 5

#: Extent of a dimension, and per operand whether it has the dimension; otherwise it broadcasts along it.
Dimension = tuple[int, tuple[bool, ...]]


def collapse(*shapes: Shape) -> list[Dimension]:
    """The dimensions of operands of these shapes, outermost first; neighbours that broadcast alike are one."""
    rank = max(map(len, shapes))
    extents = zip(*((1,) * (rank - len(shape)) + tuple(shape) for shape in shapes), strict=True)
    dims = [(next((n for n in at if n != 1), 1), tuple(n != 1 for n in at)) for at in extents]
    grouped = groupby((d for d in dims if any(d[1])), key=lambda d: d[1])
    merged = [(math.prod(n for n, _ in same), owned) for owned, same in grouped]
    return merged or [(1, (True,) * len(shapes))]


def distances(dims: Sequence[Dimension], operand: int) -> list[int]:
    """How far neighbours lie apart in an operand along every dimension, in elements; 0 where it broadcasts."""
    steps, stride = list[int](), 1
    for extent, owned in reversed(dims):
        steps.insert(0, stride if owned[operand] else 0)
        stride *= extent if owned[operand] else 1
    return steps


def filled(values: Sequence[int], fill: int) -> tuple[int, ...]:
    """One number per loop: ``values``, and before them ``fill`` (extent 1 or distance 0) for loops without work."""
    return (*[fill] * (LOOPS - len(values)), *values)


class Outer(NamedTuple):
    """``tw_outer``: loops over the rows of two operands together."""

    rows: int
    shape: tuple[int, ...]
    a_jump: tuple[int, ...]
    b_jump: tuple[int, ...]

    @classmethod
    def of(cls, extents: Sequence[int], a_steps: Sequence[int], b_steps: Sequence[int]) -> Outer:
        """The loops over dimensions, outermost first; steps lie between neighbours, in elements."""
        shape, a_jump, b_jump = (
            (*reversed(values), *[0] * (LOOPS - len(values)))
            for values in (extents, _jumps(extents, a_steps), _jumps(extents, b_steps))
        )
        return cls(math.prod(extents), shape, a_jump, b_jump)


def _jumps(extents: Sequence[int], steps: Sequence[int]) -> list[int]:
    """How far an operand moves when each dimension counts up and those inside it start again."""
    ends = [step * (n - 1) for n, step in zip(extents, steps, strict=True)]
    return [step - sum(ends[d + 1 :]) for d, step in enumerate(steps)]
