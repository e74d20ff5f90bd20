"""Graphs that passes leave alone, each with the least difference from one that they change."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from passes_tools import CONV, assert_same, bytes_, f, floats, order

from twinfer.converter.build import Builder
from twinfer.converter.passes import Pass
from twinfer.converter.passes.batch_norm import batch_norm
from twinfer.converter.passes.elementwise_constants import elementwise_constants
from twinfer.converter.passes.equalize import equalize
from twinfer.converter.passes.fuse_padding import fuse_padding
from twinfer.converter.passes.identities import identities
from twinfer.converter.passes.transposes import transposes
from twinfer.converter.text import text
from twinfer.runtime.graph import Graph, Quant, Tensor

SCALES = Quant(np.array([0.5, 0.25], np.float32), np.zeros(2, np.int64), 1)


def added_before(kernel: int) -> Graph:
    """An addition before a convolution of 4 x 4 in steps of 2: a kernel of 3 reaches one element into the padding."""
    b = Builder("add")
    y = b.op("ADD", [b.input("x", "FLOAT32", (1, 4, 4, 2)), f(2)])
    return b.graph([b.op("CONV_2D", [y, floats(3, kernel, kernel, 2), floats(3)], stride_h=2, stride_w=2)])


def scaled_behind(factor: float) -> Graph:
    b = Builder("mul")
    weights = np.full((3, 1, 1, 2), 1e3, np.float32)
    y = b.op("CONV_2D", [b.input("x", "FLOAT32", (1, 2, 2, 2)), weights, floats(3)], **CONV)
    return b.graph([b.op("MUL", [y, f(factor)])])


def constant_transposed(public: bool) -> Graph:
    b = Builder("constant")
    x = b.input("x", "FLOAT32", (3, 2))
    y = b.op("TRANSPOSE", [b.constant(floats(2, 3)), order(1, 0)])
    return b.graph([b.op("ADD", [x, y]), *([y] if public else [])])


def reshaped_behind(per_channel: bool) -> Graph:
    """TRANSPOSE, then a new dimension of one element; int8 with one scale, or one per channel."""
    b = Builder("channels")
    quant = SCALES if per_channel else Quant.per_tensor(0.5)
    x = b.add(Tensor("x", "INT8", (4, 2, 3), quant))
    b.inputs.append(x)
    turned = Tensor("turned", "INT8", (3, 4, 2), Quant(quant.scale, quant.zero_point, 2 if per_channel else 0))
    b.node("TRANSPOSE", [x, order(2, 0, 1)], [turned])
    more = Tensor("more", "INT8", (3, 1, 4, 2), Quant(quant.scale, quant.zero_point, 3 if per_channel else 0))
    b.node("RESHAPE", [turned, order(3, 1, 4, 2)], [more], {"new_shape": (3, 1, 4, 2)})
    back = Tensor("back", "INT8", (4, 1, 2, 3), Quant(quant.scale, quant.zero_point, 2 if per_channel else 0))
    b.node("TRANSPOSE", [more, order(2, 1, 3, 0)], [back])
    return b.graph([back])


def dense_behind(scale: float) -> Graph:
    """FULLY_CONNECTED over a flattened TRANSPOSE; the flattening may change the scale."""
    b = Builder("dense")
    y = b.op("TRANSPOSE", [b.input("x", "INT8", (1, 2, 3), 0.5), order(0, 2, 1)])
    flat = b.op("RESHAPE", [y, order(1, 6)], new_shape=(1, 6), scale=scale)
    return b.graph([b.op("FULLY_CONNECTED", [flat, b.constant(bytes_(2, 6), 0.01)], scale=0.5)])


def padded_before(channels: int) -> Graph:
    """Padding before a convolution with two channels per group: channels of zeros make a second group."""
    b = Builder("pad")
    pads = np.array([(0, 0), (1, 1), (1, 1), (0, channels)], np.int32)
    y = b.op("PAD", [b.input("x", "FLOAT32", (1, 4, 4, 2)), pads])
    return b.graph([b.op("CONV_2D", [y, floats(4, 3, 3, 2), floats(4)], padding="VALID", **CONV)])


def divided(by: float) -> Graph:
    b = Builder("div")
    y = b.op("DIV", [b.input("x", "FLOAT32", (1, 2)), f(4)])
    return b.graph([b.op("DIV", [y, f(2, by)])])


def sliced(step: int) -> Graph:
    b = Builder("slice")
    inputs = [b.op("NEG", [b.input("x", "FLOAT32", (3,))]), order(0), order(0), order(step)]
    return b.graph([b.op("ABS", [b.op("STRIDED_SLICE", inputs, shape=(3,), begin_mask=1, end_mask=1)])])


#: The pass, a graph that it changes, one that it must not change.
LIMITS: dict[str, tuple[Pass, Callable[[], Graph], Callable[[], Graph]]] = {
    "padding": (batch_norm, lambda: added_before(2), lambda: added_before(3)),
    "overflow": (batch_norm, lambda: scaled_behind(1e35), lambda: scaled_behind(1e36)),
    "public": (transposes, lambda: constant_transposed(False), lambda: constant_transposed(True)),
    "per_channel": (transposes, lambda: reshaped_behind(False), lambda: reshaped_behind(True)),
    "scale": (transposes, lambda: dense_behind(0.5), lambda: dense_behind(0.25)),
    "groups": (fuse_padding, lambda: padded_before(0), lambda: padded_before(2)),
    "zero": (elementwise_constants, lambda: divided(8), lambda: divided(0)),
    "backwards": (identities, lambda: sliced(1), lambda: sliced(-1)),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits(name: str) -> None:
    step, changes, stays = LIMITS[name]
    inside, outside = changes(), stays()
    assert text(step(inside)) != text(inside)
    assert text(step(outside)) == text(outside)
    if name not in ("per_channel", "scale"):  # which has no kernel
        assert_same(inside, step(inside))


def test_a_channel_that_nobody_reads_keeps_its_weights() -> None:
    """Its range in the next layer is 0, which no factor can balance."""
    b = Builder("dead")
    first, second = np.array([[8, 4], [8, 4]], np.float32), np.array([[2, 0], [2, 0]], np.float32)
    y = b.op("FULLY_CONNECTED", [b.input("x", "FLOAT32", (1, 2)), first])
    graph = b.graph([b.op("FULLY_CONNECTED", [y, second])])
    now = equalize(graph)
    assert_same(graph, now)
    rows, columns = (np.asarray(node.input(1).data) for node in now.nodes)
    np.testing.assert_allclose(rows, [[4, 2], [8, 4]], rtol=1e-6)
    np.testing.assert_allclose(columns, [[4, 0], [4, 0]], rtol=1e-6)
