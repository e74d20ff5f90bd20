"""Pools of int8 by rows of outputs: every sum that has an average, and windows at every edge, on all levels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import assert_exact
from hypothesis import given
from hypothesis import strategies as st

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import tensor
from twinfer.runtime.ops.core.unsigned import MARK
from twinfer.runtime.ops.pool.pool_2d import MOST_WIDE, geometry
from twinfer.runtime.plan.lower import lower_node
from twinfer.runtime.target import HOST


def pool(op: str, shape: tuple[int, ...], window: tuple[int, int], stride: tuple[int, int], **options: Any) -> Node:
    chosen = {
        "filter_height": window[0], "filter_width": window[1], "stride_h": stride[0], "stride_w": stride[1],
        "padding": "VALID", "fused_activation_function": "NONE", **options,
    }  # fmt: skip
    x = tensor(shape, "INT8", 0.05, 7)
    out = geometry(Node(op, (x,), (), chosen)).shape
    return Node(op, (x,), (tensor(out, "INT8", 0.05, 7, name="y"),), chosen)


def check(node: Node, x: Array) -> None:
    """All levels give numpy's bits by rows."""
    assert_exact(node, [x], [HOST])
    assert lower_node(node, HOST)[0].kernel.endswith("_wide_s8")


def every_sum(values: int) -> Array:
    """Windows [1, 1, values * windows, 8], one of each sum of so many int8."""
    sums = np.arange(-128 * values, 127 * values + 1)
    windows = sums[:, None] // values + (np.arange(values) < (sums % values)[:, None])
    assert np.array_equal(windows.sum(axis=1), sums)
    return np.repeat(windows.reshape(1, 1, -1, 1), 8, axis=3).astype(np.int8)


@pytest.mark.parametrize("marked", [False, True], ids=["int8", "uint8"])
@pytest.mark.parametrize("values", range(1, MOST_WIDE + 1))
def test_every_average(values: int, marked: bool) -> None:
    """Ties round away from zero, or up where values were uint8."""
    x = every_sum(values)
    check(pool("AVERAGE_POOL_2D", x.shape, (1, values), (1, values), **{MARK: marked}), x)


@given(
    st.sampled_from(["AVERAGE_POOL_2D", "MAX_POOL_2D"]),
    st.tuples(st.integers(1, 2), st.integers(1, 9), st.integers(1, 9), st.integers(1, 40)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from(["NONE", "RELU", "RELU6", "RELU_N1_TO_1"]),
    st.integers(0, 1 << 32),
)
def test_every_edge(
    op: str, shape: tuple[int, ...], window: tuple[int, int], stride: tuple[int, int], act: str, seed: int
) -> None:
    x = np.random.default_rng(seed).integers(-128, 128, shape, np.int8)
    check(pool(op, shape, window, stride, padding="SAME", fused_activation_function=act), x)


def test_a_maximum_of_many_values() -> None:
    x = np.random.default_rng(0).integers(-128, 128, (1, 20, 21, 24), np.int8)
    check(pool("MAX_POOL_2D", x.shape, (7, 9), (2, 3)), x)
