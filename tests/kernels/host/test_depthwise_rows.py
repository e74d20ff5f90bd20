"""DEPTHWISE_CONV_2D of int8 over rows in a ring: every body and every edge of its vectors, on all levels."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from cases import assert_exact, graph_of, values_of

from twinfer.runtime.op import Case
from twinfer.runtime.ops.conv import conv2d
from twinfer.runtime.ops.conv._layer import geometry
from twinfer.runtime.ops.core.layer_cases import Layer
from twinfer.runtime.ops.depthwise import depthwise_conv2d_avx2
from twinfer.runtime.plan.lower import lower_node
from twinfer.runtime.target import AVX2, AVX512_VNNI

#: Pixels dealt out in 4, 8, 16 and 32 bytes; those whose vectors take turns; a part of a block, and several blocks.
CHANNELS = (2, 4, 6, 8, 12, 16, 24, 31, 32, 40, 48, 64, 65, 96, 128, 144)

#: Windows with bodies of their own, with one to eight fours of rows, and others.
WINDOWS = ((3, 3), (1, 1), (9, 1), (5, 5), (3, 5), (2, 3), (4, 2), (7, 7), (32, 1))

#: Those of them that are not deep.
USUAL = ((3, 3), (5, 5), (9, 1), (32, 1))

#: Layers that end in one rounding, where signs matter and where not, and in two.
ENDS: dict[str, tuple[Layer, str]] = {
    "relu": (Layer(zero=-128, out_zero=-128), "RELU"),
    "signs": (Layer(zero=-3, out_zero=5), "NONE"),
    "twice": (Layer(zero=17, out_zero=-128, out_scale=0.0001), "RELU"),
}


def case_of(rng: np.random.Generator, channels: int, window: tuple[int, int], end: str, **options: Any) -> Case:
    """A layer of a random image that the window fits into."""
    layer, activation = ENDS[end]
    image = (int(rng.integers(1, 3)), window[0] + int(rng.integers(0, 4)), window[1] + int(rng.integers(0, 22)))
    chosen = {**conv2d.DEFAULTS, "depth_multiplier": 1, "fused_activation_function": activation, **options}
    shapes = ((*image, channels), (1, *window, channels))
    return layer.case(rng, "DEPTHWISE_CONV_2D", shapes, lambda node: geometry(node).shape, chosen, axis=3)


def check(case: Case) -> dict[str, Any]:
    """All levels give numpy's bits. The kernel's params."""
    graph = graph_of(case.node)
    assert_exact(case.node, values_of(case, graph), (AVX2, AVX512_VNNI))
    call, _ = lower_node(case.node, AVX2)
    assert call.kernel == "tw_depthwise_conv2d_avx2_s8"
    return dict(call.params)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    "window", [pytest.param(w, marks=[] if w in USUAL else pytest.mark.deep) for w in WINDOWS], ids=map(str, WINDOWS)
)
def test_every_body(window: tuple[int, int], end: str) -> None:
    rng, seen = np.random.default_rng(window[0] * 8 + window[1]), set()
    for channels, stride in product(CHANNELS, (1, 2, 3)):
        padding = ("SAME", "VALID")[rng.integers(2)]
        strides = {"stride_h": int(rng.integers(1, 4)), "stride_w": stride}
        params = check(case_of(rng, channels, window, end, padding=padding, **strides))
        assert bool(params["fast"]) == (end != "twice")
        seen.add((params["planes"], params["flat"], min(params["blocks"], 2)))
    assert seen >= set(product((1, 2, 3), (0, 1), (1, 2)))


@pytest.mark.parametrize("window", [(3, 3), (5, 5), (9, 1)], ids=str)
def test_dilation(window: tuple[int, int]) -> None:
    rng = np.random.default_rng(7)
    for channels, (h, w) in product((8, 24, 64, 65), ((2, 1), (1, 2), (2, 3))):
        options = {"dilation_h_factor": h, "dilation_w_factor": w, "padding": "SAME"}
        check(case_of(rng, channels, window, "relu", **options))


@pytest.mark.parametrize("channels", [2, 3, 4, 8, 16, 24, 64])
def test_every_width(channels: int) -> None:
    """Rows of outputs that end anywhere in a vector, behind any number of whole ones."""
    rng, layer = np.random.default_rng(channels), ENDS["relu"][0]
    widths = range(1, 40) if channels >= 8 else (1, 2, 5, 31, 32, 33, 63, 64, 65, 66, 127, 128, 130)
    for width, stride in product(widths, (1, 2)):
        shapes = ((1, 4, width, channels), (1, 3, 3, channels))
        options = {**conv2d.DEFAULTS, "depth_multiplier": 1, "stride_w": stride, "fused_activation_function": "RELU"}
        check(layer.case(rng, "DEPTHWISE_CONV_2D", shapes, lambda node: geometry(node).shape, options, axis=3))


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("along", ["column", "row"])
def test_columns(along: str, end: str) -> None:
    """Filters along one column, or along one row, which lies alike: any number of taps, outputs and channels."""
    rng, (layer, activation), columns = np.random.default_rng(len(end)), ENDS[end], 0
    for channels, taps, stride in product((2, 8, 40, 64, 65, 128, 144), (1, 3, 4, 5, 12, 32, 33), (1, 2)):
        size = taps + int(rng.integers(0, 9))
        dilation = int(rng.integers(1, 3)) if stride == 1 and size > 2 * taps else 1
        options = {
            **conv2d.DEFAULTS, "depth_multiplier": 1, "fused_activation_function": activation,
            "padding": ("SAME", "VALID")[rng.integers(2)],
            "stride_h": stride, "stride_w": stride, "dilation_h_factor": dilation, "dilation_w_factor": dilation,
        }  # fmt: skip
        sides = [(size, 1), (taps, 1)] if along == "column" else [(1, size), (1, taps)]
        shapes = (int(rng.integers(1, 3)), *sides[0], channels), (1, *sides[1], channels)
        if taps > depthwise_conv2d_avx2.ROWS and along == "column":
            continue
        params = check(layer.case(rng, "DEPTHWISE_CONV_2D", shapes, lambda node: geometry(node).shape, options, axis=3))
        columns += int(params["column"])
    assert columns > 50


def test_a_column_that_does_not_fit_the_first_cache_is_a_ring() -> None:
    rng, (layer, activation) = np.random.default_rng(0), ENDS["relu"]
    options = {**conv2d.DEFAULTS, "depth_multiplier": 1, "fused_activation_function": activation, "padding": "VALID"}
    for height, column in ((256, 1), (257, 0)):
        shapes = (1, height, 1, 64), (1, 4, 1, 64)
        case = layer.case(rng, "DEPTHWISE_CONV_2D", shapes, lambda node: geometry(node).shape, options, axis=3)
        assert check(case)["column"] == column
