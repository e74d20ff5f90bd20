"""What ``convert`` gives runs, here and in LiteRT, or it says why not: spellings, indices, batches, kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRT
from onnx import helper
from onnx_tools import Array, by_litert, by_onnxruntime, by_ours, floats, model
from tflite_micro.python.tflite_micro import runtime as tflm

import twinfer
from twinfer.converter.build import Builder
from twinfer.runtime.errors import ModelError, TwinferError, UnsupportedOperatorError
from twinfer.runtime.graph import Tensor

X = 2 * floats(np.random.default_rng(0), 2, 8)


def nodes_of(text: str) -> list[onnx.NodeProto]:
    parts = [line.split() for line in text.split(";")]
    return [helper.make_node(op, names[:-1], names[-1:]) for op, *names in parts]


@pytest.mark.parametrize("quantize", [None, "int8", "int16x8"])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("stored", [True, False], ids=["table", "data"])
def test_indices_from_the_end(quantize: Any, kind: Any, stored: bool) -> None:
    """In floats and integers; TFLM, which knows int32, has all operators."""
    rng = np.random.default_rng(1)
    table, w, at = floats(rng, 5, 6), floats(rng, 6, 4), np.array([[0, -1, 2, -5]], kind)
    nodes = [helper.make_node("Gather", ["t", "i"], ["e"]), helper.make_node("MatMul", ["e", "w"], ["y"])]
    feeds = {"i": at} | ({} if stored else {"t": table})
    proto = model(nodes, feeds, {"w": w} | ({"t": table} if stored else {}), ["y"])
    how: dict[str, Any] = {"quantize": quantize, "inference_type": "FLOAT32"} if quantize else {}
    how |= {"calibration": {key: np.stack([value, value[::-1]]) for key, value in feeds.items()}} if quantize else {}
    graph, (wanted,) = twinfer.convert(proto, **how), by_onnxruntime(proto, feeds)
    tolerance = 0.02 * np.abs(wanted).max() if quantize else 1e-5
    for got in (by_ours(graph, feeds), by_litert(graph, feeds)):
        np.testing.assert_allclose(got[0], wanted, atol=tolerance)
    if kind == np.int32 and stored and quantize is None:
        micro = tflm.Interpreter.from_bytes(twinfer.write(graph))
        micro.set_input(at, 0)
        micro.invoke()
        np.testing.assert_allclose(micro.get_output(0), wanted, atol=tolerance)


def without_kernel(b: Builder, x: Tensor) -> Any:
    return b.op("SKIP_GRAM", [x], (1, 8))


def custom(b: Builder, x: Tensor) -> Any:
    return b.op("CUSTOM:TransformLandmarks", [x], (1, 8))


@pytest.mark.parametrize(("make", "name"), [(without_kernel, "SKIP_GRAM"), (custom, "TransformLandmarks")])
def test_what_has_no_kernel_is_said_at_convert(make: Any, name: str, tmp_path: Any) -> None:
    b = Builder("net")
    graph = b.graph([make(b, b.input("x", "FLOAT32", (1, 8)))])
    with pytest.raises(TwinferError, match=rf"cannot run: operator 0 .*{name}") as caught:
        twinfer.convert_file(graph, tmp_path / "net.tflite")
    assert isinstance(caught.value, UnsupportedOperatorError)
    assert not (tmp_path / "net.tflite").exists()


def test_all_that_has_no_kernel_is_said_at_once() -> None:
    b = Builder("net")
    x = b.input("x", "FLOAT32", (1, 8))
    graph = b.graph([b.op(f"CUSTOM:Mystery{i}", [x], (1, 8)) for i in range(3)])
    with pytest.raises(UnsupportedOperatorError, match=r"(?s)cannot run: .*Mystery0.*\n  .*Mystery1.*\n  .*Mystery2"):
        twinfer.convert(graph)


def resized(interpreter: Any, batch: Array) -> Array:
    index = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(index, batch.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(index, batch)
    interpreter.invoke()
    result: Array = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    return result


@pytest.mark.parametrize("quantize", [None, "int8"])
def test_the_batch_stays_open(quantize: Any) -> None:
    """A net of images of one channel, whose transpose becomes a RESHAPE, with a flatten behind."""
    rng = np.random.default_rng(3)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Reshape", ["c", "shape"], ["r"]),
        helper.make_node("MatMul", ["r", "d"], ["m"]),
        helper.make_node("Tanh", ["m"], ["y"]),
    ]
    constants = {"w": floats(rng, 2, 1, 3, 3), "d": floats(rng, 72, 5) / 8, "shape": np.array([1, 72])}
    images = floats(rng, 3, 1, 6, 6)
    proto = model(nodes, {"x": images[:1]}, constants, ["y"])
    how: dict[str, Any] = {"quantize": quantize, "calibration": {"x": images}, "inference_type": "FLOAT32"}
    content = twinfer.write(twinfer.convert(proto, **(how if quantize else {})))
    alone = np.concatenate([resized(twinfer.Interpreter(model_content=content), image[None]) for image in images])
    for engine in (twinfer.Interpreter, LiteRT):
        np.testing.assert_allclose(resized(engine(model_content=content), images), alone, atol=1e-5)
    wanted = np.concatenate([by_onnxruntime(proto, {"x": image[None]})[0] for image in images])
    np.testing.assert_allclose(alone, wanted, atol=0.08 if quantize else 1e-5)


def test_a_batch_that_is_not_in_front_stays_as_it_is() -> None:
    """The second dimension goes to the front, and the first one into the rows: -1 would be wrong for more of it."""
    b = Builder("net")
    x = b.input("x", "FLOAT32", (4, 2, 3))
    y = b.op("TRANSPOSE", [x, np.array([1, 0, 2], np.int32)], (2, 4, 3))
    graph = b.graph([b.op("RESHAPE", [y, np.array([2, 12], np.int32)], (2, 12), new_shape=(2, 12))])
    reshape = twinfer.convert(graph).nodes[-1]
    assert np.asarray(reshape.input(1).data).tolist() == [2, 12]


@pytest.mark.parametrize("scale", [np.inf, 0.0, -0.5])
def test_scales_without_integers_are_refused(scale: float) -> None:
    nodes = nodes_of("QuantizeLinear x s z q;DequantizeLinear q s z y")
    proto = model(nodes, {"x": X}, {"s": np.array(scale, np.float32), "z": np.array(0, np.int8)}, ["y"])
    with pytest.raises(ModelError, match=r"QuantizeLinear 'q': tensor 'x'.* scale .*finite and above zero"):
        twinfer.convert(proto)


def test_weights_of_a_scale_without_integers_keep_their_values() -> None:
    constants = {"q": np.array([[1, -2], [3, 4]], np.int8), "s": np.array([0.5, 0.0], np.float32)}
    nodes = [helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=0), *nodes_of("MatMul x w y")]
    feeds = {"x": X[:, :2].copy()}
    proto = model(nodes, feeds, constants, ["y"])
    for got, want in zip(by_ours(twinfer.convert(proto), feeds), by_onnxruntime(proto, feeds), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-5)
