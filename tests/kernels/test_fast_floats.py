"""Float convolutions and dense layers of any shape on every level: the plain kernel's bits.

Random shapes, strides, paddings and dilations; channel counts and widths around every tile's edge.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import graph_of, interpreted, outputs_of
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from twinfer.kernels_c import LEVELS, lib
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Node
from twinfer.runtime.op import tensor
from twinfer.runtime.ops.conv import conv2d
from twinfer.runtime.ops.dense import fully_connected
from twinfer.runtime.ops.depthwise import depthwise_conv2d
from twinfer.runtime.plan.lower import lower_node
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session
from twinfer.runtime.target import GENERIC, HOST

OPERATORS = {"CONV_2D": conv2d, "DEPTHWISE_CONV_2D": depthwise_conv2d, "FULLY_CONNECTED": fully_connected}

#: Where tiles and vectors end.
EDGES = (1, 3, 4, 6, 8, 12, 16, 24, 32, 48)

Floats = NDArray[np.float32]


def size(rng: np.random.Generator, most: int) -> int:
    """A size up to ``most``, likely beside one of ``EDGES``."""
    near = int(rng.choice(EDGES)) + int(rng.integers(-1, 2))
    return int(np.clip(near, 1, most))


def floats(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Values of many magnitudes, zeros of both signs among them: the order of a sum shows in its bits."""
    values = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)
    return np.where(rng.random(shape) < 0.1, np.copysign(0.0, values), values).astype(np.float32)


def shapes(rng: np.random.Generator, op: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of x and the weights."""
    if op == "FULLY_CONNECTED":
        depth = size(rng, 70)
        return (int(rng.integers(1, 40)) if rng.integers(2) else 1, depth), (int(rng.integers(1, 300)), depth)
    k = (3, 3) if rng.integers(2) else (int(rng.integers(1, 6)), int(rng.integers(1, 6)))
    image = (int(rng.integers(1, 3)), size(rng, 12), size(rng, 49))
    if rng.random() < 0.2:  # a column: rows of one pixel
        image, k = (*image[:1], image[2], 1), (k[0], 1)
    if op == "CONV_2D":
        depth = size(rng, 17)
        return (*image, depth), (size(rng, 49), *k, depth)
    channels = size(rng, 49)
    return (*image, channels), (1, *k, channels)


def options(rng: np.random.Generator, op: str) -> dict[str, Any]:
    chosen: dict[str, Any] = {"fused_activation_function": str(rng.choice(["NONE", "RELU", "RELU6"]))}
    if op == "FULLY_CONNECTED":
        return chosen
    strides = (1, 1) if rng.integers(2) else tuple(map(int, rng.integers(1, 4, 2)))
    dilations = (1, 1) if rng.integers(3) else tuple(map(int, rng.integers(1, 5, 2)))
    chosen |= {"padding": str(rng.choice(["SAME", "VALID"])), "stride_h": strides[0], "stride_w": strides[1]}
    return chosen | {"dilation_h_factor": dilations[0], "dilation_w_factor": dilations[1]}


def node_of(rng: np.random.Generator, op: str) -> tuple[Node, Floats]:
    """A random node and its input."""
    while True:
        x_shape, w_shape = shapes(rng, op)
        channels = w_shape[-1] if op == "DEPTHWISE_CONV_2D" else w_shape[0]
        w = tensor(w_shape, data=floats(rng, w_shape), name="w")
        bias = tensor((channels,), data=floats(rng, (channels,)), name="b")
        draft = Node(op, (tensor(x_shape, name="x"), w, bias), (tensor((1,)),), options(rng, op))
        try:
            (shape,) = OPERATORS[op].OP.infer(draft)
        except ModelError:  # a window larger than an image without padding
            continue
        return Node(op, draft.inputs, (tensor(shape, name="y"),), draft.options), floats(rng, x_shape)


@pytest.mark.parametrize("op", OPERATORS)
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, (1 << 32) - 1))
def test_levels_give_the_plain_kernels_bits(op: str, seed: int) -> None:
    node, value = node_of(np.random.default_rng(seed), op)
    graph = graph_of(node)
    (want,) = interpreted(graph, [value], GENERIC, 0)
    plan = make_plan(graph, HOST)
    for level in range(lib.tw_level() + 1):
        (got,) = outputs_of(Session(plan, level), [value])
        np.testing.assert_array_equal(got.view(np.int32), want.view(np.int32), err_msg=f"{LEVELS[level]}: {node}")


def test_nodes_reach_every_kernel() -> None:
    """Padded and unpadded windows, pairs of pixels, and batches as pixels."""
    seen = set()
    for op in OPERATORS:
        for seed in range(300):
            call, _ = lower_node(node_of(np.random.default_rng(seed), op)[0], HOST)
            seen.add((op, call.kernel, bool(call.params.get("columns")), bool(call.params.get("pair"))))
    assert seen >= {
        ("CONV_2D", "tw_conv2d_wide_f32", False, False),
        ("CONV_2D", "tw_conv2d_wide_f32", True, False),
        ("DEPTHWISE_CONV_2D", "tw_depthwise_conv2d_wide_f32", False, False),
        ("DEPTHWISE_CONV_2D", "tw_depthwise_conv2d_wide_f32", False, True),
        ("FULLY_CONNECTED", "tw_conv2d_wide_f32", False, False),
        ("FULLY_CONNECTED", "tw_fully_connected_wide_f32", False, False),
    }


def test_padding_and_weights_that_are_not_finite() -> None:
    """Zeros of padding times infinity would be NaN: the plain kernel leaves them out. NONE clamps to finite values."""
    w = tensor((4, 3, 3, 2), data=np.full((4, 3, 3, 2), np.inf, np.float32), name="w")
    shape = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
    activation = {"fused_activation_function": "NONE"}
    node = Node("CONV_2D", (tensor((1, 4, 4, 2), name="x"), w), (tensor((1, 4, 4, 4), name="y"),), shape | activation)
    graph = graph_of(node)
    (got,) = interpreted(graph, [np.ones((1, 4, 4, 2), np.float32)], HOST, lib.tw_level())
    assert (got == np.finfo(np.float32).max).all()
