"""``channels_last``: the inputs and outputs that have their channels second, and messages about others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from needs import needs

import twinfer
from twinfer.converter.build import Builder
from twinfer.runtime.graph import Graph

onnx = needs("onnx")

from onnx import helper  # noqa: E402
from onnx_tools import compare, floats, model, run  # noqa: E402

RNG = np.random.default_rng(4)
KERNEL = {"padding": "SAME", "stride_h": 1, "stride_w": 1}

#: As many rows and columns as channels, so that no shape tells which is which.
CUBE = (1, 16, 16, 16)


def own_image() -> Graph:
    b = Builder("image")
    x = b.input("x", "FLOAT32", CUBE)
    y = b.op("CONV_2D", [b.op("RELU", [x]), floats(RNG, 16, 3, 3, 16), np.zeros(16, np.float32)], **KERNEL)
    return b.graph([y])


def own_dense() -> Graph:
    b = Builder("dense")
    x = b.op("RESHAPE", [b.input("x", "FLOAT32", (1, 4, 4, 4)), np.array([1, 64], np.int32)], shape=(1, 64))
    return b.graph([b.op("FULLY_CONNECTED", [x, floats(RNG, 3, 64), np.zeros(3, np.float32)], shape=(1, 3))])


def of_tensorflow() -> onnx.ModelProto:
    """What tf2onnx writes: NHWC outside, transposes around ONNX's convolution."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["t", "w"], ["c"], pads=[1] * 4),
        helper.make_node("Transpose", ["c"], ["y"], perm=[0, 2, 3, 1]),
    ]
    return model(nodes, {"x": floats(RNG, *CUBE)}, {"w": floats(RNG, 16, 16, 3, 3)}, ["y"])


def image(*tail: str) -> onnx.ModelProto:
    names = ["x", *(f"v{i}" for i in range(len(tail))), "y"]
    nodes = [helper.make_node("Conv", ["x", "w"], [names[1]], pads=[1] * 4)]
    nodes += [helper.make_node(op, [a], [b]) for op, a, b in zip(tail, names[1:], names[2:], strict=False)]
    return model(nodes, {"x": floats(RNG, *CUBE)}, {"w": floats(RNG, 16, 16, 3, 3)}, ["y"])


def dense() -> onnx.ModelProto:
    nodes = [helper.make_node("Flatten", ["x"], ["f"]), helper.make_node("MatMul", ["f", "w"], ["y"])]
    return model(nodes, {"x": floats(RNG, 1, 4, 4, 4)}, {"w": floats(RNG, 64, 3)}, ["y"])


def last(value: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(value, 1, -1)) if value.ndim == 4 else value


@pytest.mark.parametrize("make", [own_image, own_dense, of_tensorflow])
def test_channels_that_are_last_stay_there(make: Callable[[], Graph]) -> None:
    source = make()
    plain = twinfer.convert(source)
    with pytest.warns(twinfer.ModelWarning, match=r"channels_last changes nothing.*'x' .* the channels last already"):
        turned = twinfer.convert(source, channels_last=True)
    feeds = {"x": floats(RNG, *plain.inputs[0].shape)}
    compare(run(turned, feeds), run(plain, feeds), 0)


@pytest.mark.parametrize("make", [image, lambda: image("Relu", "Sigmoid"), dense])
def test_channels_of_onnx_come_last(make: Callable[[], onnx.ModelProto]) -> None:
    source = make()
    plain, turned = twinfer.convert(source), twinfer.convert(source, channels_last=True)
    x = floats(RNG, *plain.inputs[0].shape)
    compare(run(turned, {"x": last(x)}), [last(y) for y in run(plain, {"x": x})], 1e-6)
    assert "TRANSPOSE" not in {node.op for node in turned.nodes}


def test_nothing_of_four_dimensions() -> None:
    source = model([helper.make_node("Relu", ["x"], ["y"])], {"x": floats(RNG, 1, 4, 8)}, {}, ["y"])
    with pytest.warns(twinfer.ModelWarning, match=r"nothing: no input .* has four.*channels_last=\['x', 'y'\]"):
        twinfer.convert(source, channels_last=True)
