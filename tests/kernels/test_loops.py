"""The walks of runtime/ops/core: operands that broadcast reach the same elements as in numpy, in the same order."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinfer.runtime.op import Shape, tensor
from twinfer.runtime.ops.core.axis import Axes, last_axis, one_axis
from twinfer.runtime.ops.core.broadcast import Walk
from twinfer.runtime.ops.core.loops import LOOPS, Outer, collapse, distances, filled
from twinfer.runtime.target import GENERIC, HOST, Target


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Shape, Shape]:
    """Two shapes that broadcast, of up to five dimensions each."""
    full = draw(st.lists(st.integers(1, 4), max_size=5))
    a, b = ([draw(st.sampled_from((1, n))) for n in full] for _ in range(2))
    return tuple(a[draw(st.integers(0, len(a))) :]), tuple(b)


def rows(outer: Outer) -> list[tuple[int, int]]:
    """Where rows of both operands begin, as tw_next_row counts."""
    index, a, b, begins = [0] * LOOPS, 0, 0, list[tuple[int, int]]()
    for _ in range(outer.rows):
        begins.append((a, b))
        for d in range(LOOPS):
            index[d] += 1
            if index[d] < outer.shape[d]:
                a, b = a + outer.a_jump[d], b + outer.b_jump[d]
                break
            index[d] = 0
    return begins


@pytest.mark.parametrize("target", [HOST, GENERIC], ids=["host", "generic"])
@given(shapes=pairs())
def test_walk_reaches_what_numpy_does(target: Target, shapes: tuple[Shape, Shape]) -> None:
    walk = Walk.of(*(tensor(shape) for shape in shapes), target)
    elements = [np.arange(math.prod(shape)).reshape(shape) for shape in shapes]
    short = np.tile(elements[1].ravel(), walk.tile) if walk.tile > 1 else elements[1].ravel()
    walked = [
        (elements[0].ravel()[a + i * walk.a_step], short[b + i * walk.b_step])
        for a, b in rows(walk.outer)
        for i in range(walk.size)
    ]
    wanted = zip(*(part.ravel() for part in np.broadcast_arrays(*elements)), strict=True)
    assert walked == list(wanted)


@given(shapes=st.tuples(pairs(), st.booleans()))
def test_collapsed_dimensions_hold_all_elements(shapes: tuple[tuple[Shape, Shape], bool]) -> None:
    (a, b), third = shapes
    operands = (a, b, ()) if third else (a, b)
    dims = collapse(*operands)
    assert math.prod(n for n, _ in dims) == math.prod(np.broadcast_shapes(*operands))
    assert all(before != after for (_, before), (_, after) in pairwise(dims))
    for i, shape in enumerate(operands):
        reach = sum(step * (n - 1) for step, (n, _) in zip(distances(dims, i), dims, strict=True))
        assert reach == math.prod(shape) - 1


def test_loops_that_are_not_there_stand_in_front() -> None:
    assert filled([3, 2], 1) == (1, 1, 1, 3, 2)
    assert filled([], 0) == (0,) * LOOPS


def test_axes_of_shapes() -> None:
    assert last_axis((2, 3, 4)) == {"rows": 6, "depth": 4}
    assert last_axis((5,)) == {"rows": 1, "depth": 5}
    assert one_axis((2, 3, 4, 5), 1) == {"outer": 2, "count": 3, "inner": 20}
    assert Axes(1, 1, 2, 15, 7, 1).as_one == {"outer": 2, "count": 15, "inner": 7}
    assert Axes(1, 1, 2, 15, 7, 3).as_one is None
