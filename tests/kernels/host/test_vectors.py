"""Operators of int8 that computers run in vectors: the reference's bits at every length, on every level."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
from cases import assert_exact, graph_of
from hypothesis import given, settings
from hypothesis import strategies as st

from twinfer.kernels_c import FOLDER, LEVELS, lib
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import Case, tensor
from twinfer.runtime.ops.conv import _bands
from twinfer.runtime.ops.core import packing
from twinfer.runtime.ops.core.channels import FAST_RIGHT
from twinfer.runtime.ops.depthwise import depthwise_conv2d_avx2
from twinfer.runtime.ops.recurrent import svdf
from twinfer.runtime.ops.reduce._reduce import reduction
from twinfer.runtime.plan.lower import lower_node
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run import isa
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import HOST

NONE = {"fused_activation_function": "NONE"}


def alike(node: Node, seed: int, kernel: str = "") -> None:
    """Every level gives the reference's bits; ``kernel`` is what computes it."""
    graph = graph_of(node)
    assert kernel in ("", lower_node(node, HOST)[0].kernel)
    assert_exact(node, random_inputs(graph, seed), [HOST])


def quantised(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> Tensor:
    return tensor(shape, "INT8", float(rng.uniform(0.01, 0.1)), int(rng.integers(-128, 128)), name=name)


seeds = st.integers(0, 1 << 20)


@pytest.mark.parametrize("op", ["ADD", "SUB", "MUL"])
@given(seed=seeds, count=st.integers(1, 200), rows=st.integers(1, 5), bias=st.booleans(), act=st.booleans())
@settings(max_examples=60, deadline=None)
def test_pairs(op: str, seed: int, count: int, rows: int, bias: bool, act: bool) -> None:
    rng = np.random.default_rng(seed)
    a, y = quantised(rng, (rows, count), "a"), quantised(rng, (rows, count), "y")
    b = quantised(rng, (count,) if bias else (rows, count), "b")
    node = Node(op, (a, b), (y,), {"fused_activation_function": "RELU" if act else "NONE"})
    alike(node, seed)


@given(seed=seeds, count=st.integers(1, 300))
@settings(max_examples=60, deadline=None)
def test_tables(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    alike(Node("LEAKY_RELU", (quantised(rng, (count,), "x"),), (quantised(rng, (count,), "y"),), {"alpha": 0.3}), seed,
          "tw_lut_wide")  # fmt: skip


@pytest.mark.parametrize("op", ["MEAN", "SUM", "REDUCE_MAX"])
@given(seed=seeds, channels=st.integers(1, 150), axes=st.sampled_from([(1, 2), (0, 2), (3,), (1, 3), (0, 1, 2, 3)]))
@settings(max_examples=40, deadline=None)
def test_reductions(op: str, seed: int, channels: int, axes: tuple[int, ...]) -> None:
    node = reduction(op, tensor((2, 3, 4, channels), "INT8", 0.1, 3, name="x"), axes, True, (0.1, 3))
    alike(node, seed)


@given(seed=seeds, channels=st.integers(1, 90), half=st.booleans())
@settings(max_examples=40, deadline=None)
def test_bilinear(seed: int, channels: int, half: bool) -> None:
    x = tensor((1, 3, 4, channels), "INT8", 0.1, 3, name="x")
    y = tensor((1, 7, 5, channels), "INT8", 0.1, 3, name="y")
    size = tensor((2,), "INT32", data=np.array([7, 5]), name="size")
    alike(Node("RESIZE_BILINEAR", (x, size), (y,), {"align_corners": False, "half_pixel_centers": half}), seed)


@given(
    seed=seeds, batches=st.integers(1, 2), size=st.integers(1, 40), units=st.integers(1, 40), rank=st.integers(1, 3),
    memory=st.integers(1, 20),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_svdf(seed: int, batches: int, size: int, units: int, rank: int, memory: int) -> None:
    rng = np.random.default_rng(seed)
    case: Case = svdf._case(rng, "INT8", (batches, size), (units, rank, memory), (2.0, 0))
    alike(case.node, seed, "tw_svdf_wide_s8")


def test_levels_that_are_not_built_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an editable install, which has the CPU's best alone."""
    monkeypatch.setattr(isa, "lib", SimpleNamespace(tw_level=lambda: 2, tw_built=lambda level: level == 2))
    assert isa.usable(2) == 2
    monkeypatch.setenv("TWINFER_ISA", LEVELS[0])
    for ask in (lambda: isa.usable(0), isa.level):
        with pytest.raises(InvalidArgumentError, match=f"not built for the level {LEVELS[0]}: in the checkout, python"):
            ask()


def test_levels_that_the_cpu_lacks_are_refused() -> None:
    plan = make_plan(graph_of(svdf._case(np.random.default_rng(1), "INT8", (1, 8), (4, 1, 5), (2.0, 0)).node))
    for level in (-1, lib.tw_level() + 1):
        with pytest.raises(InvalidArgumentError, match=f"level {level} of the kernels does not run here"):
            Session(plan, level)


@pytest.mark.parametrize(
    ("header", "macro", "value"),
    [
        ("conv/conv2d_wide.h", "TW_CONV_PLACES", _bands.PLACES),
        ("isa/wide/wide.h", "TW_TILE_ROWS", packing.ROWS),
        ("isa/wide/lanes.h", "TW_LANES", packing.LANES),
        ("isa/wide/lanes.h", "TW_FAST_RIGHT", FAST_RIGHT),
        ("isa/wide/unpacked.h", "TW_BLOCK", depthwise_conv2d_avx2.BYTES),
        ("depthwise/depthwise_ring.h", "TW_RING_ROWS", depthwise_conv2d_avx2.ROWS),
        ("depthwise/depthwise_ring.h", "TW_RING_BLOCKS", depthwise_conv2d_avx2.BLOCKS),
    ],
)
def test_one_size_for_python_and_c(header: str, macro: str, value: int) -> None:
    assert re.findall(rf"^#define {macro} (\d+)$", (FOLDER / header).read_text(), re.MULTILINE) == [str(value)]
