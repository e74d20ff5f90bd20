"""Convolutions, pools, resizing, sampling and spectra: our interpreter and LiteRT give what ONNX Runtime gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx_tools import by_litert, by_onnxruntime, by_ours, model

from twinfer.converter.convert import convert
from twinfer.converter.onnx import read_onnx

Shape = tuple[int, ...]

#: Operator, inputs' shapes (lists are values), which of them come at run time, attributes.
NODES: dict[str, tuple[str, list[Any], int, dict[str, Any]]] = {
    "conv, weights at run time": ("Conv", [(2, 4, 7, 6), (6, 2, 3, 2), (6,)], 3, {"group": 2, "pads": [1, 0, 2, 1]}),
    "depthwise, weights at run time": ("Conv", [(1, 3, 9), (6, 1, 4)], 2, {"group": 3, "auto_pad": "SAME_LOWER"}),
    "volumes": ("Conv", [(1, 4, 5, 6, 4), (6, 2, 3, 2, 3), (6,)], 1, {"group": 2, "strides": [2, 1, 1]}),
    "volumes, dilated": ("Conv", [(2, 1, 6, 6, 6), (3, 1, 2, 3, 2)], 1, {"dilations": [2, 1, 3], "pads": [1] * 6}),
    "volumes, depthwise": (
        "Conv", [(2, 6, 6, 5, 6), (12, 1, 3, 2, 3), (12,)], 1,
        {"group": 6, "strides": [2, 1, 1], "dilations": [1, 2, 1], "pads": [1, 1, 0, 2, 0, 1]},
    ),
    "volumes, many groups at run time": ("Conv", [(1, 10, 4, 3, 4), (5, 2, 2, 1, 3)], 2, {"group": 5}),
    "transposed at run time": ("ConvTranspose", [(1, 3, 4, 5), (3, 2, 3, 2), (2,)], 3, {"strides": [2, 3]}),
    "transposed, depthwise": (
        "ConvTranspose", [(1, 6, 5, 4), (6, 1, 4, 3), (6,)], 1,
        {"group": 6, "strides": [2, 2], "pads": [1, 0, 1, 2], "output_padding": [1, 0]},
    ),
    "transposed, two groups": ("ConvTranspose", [(1, 4, 5, 3), (4, 2, 2, 3)], 1, {"group": 2, "strides": [1, 2]}),
    "transposed volumes, groups": (
        "ConvTranspose", [(1, 2, 2, 3, 2), (2, 2, 2, 2, 2)], 1, {"group": 2, "strides": [2] * 3}
    ),
    "transposed volumes, depthwise": (
        "ConvTranspose", [(1, 5, 2, 3, 2), (5, 1, 2, 2, 3)], 1, {"group": 5, "strides": [2, 1, 2]}
    ),
    "transposed, groups at run time": ("ConvTranspose", [(1, 4, 5), (4, 3, 3)], 2, {"group": 2, "dilations": [2]}),
    "transposed and cut": ("ConvTranspose", [(1, 2, 9), (2, 3, 2)], 1, {"dilations": [2], "pads": [3, 4]}),
    "transposed volumes": (
        "ConvTranspose", [(1, 3, 3, 2, 4), (3, 2, 2, 3, 2), (2,)], 1,
        {"strides": [2, 1, 2], "pads": [0, 1, 0, 1, 0, 1], "output_padding": [1, 0, 1]},
    ),
    "transposed to a shape": (
        "ConvTranspose", [(1, 2, 3, 3), (2, 2, 3, 3)], 1, {"strides": [3, 2], "output_shape": [10, 8]}
    ),
    "maxima, dilated": (
        "MaxPool", [(2, 3, 13, 11)], 1,
        {"kernel_shape": [3, 4], "dilations": [2, 3], "strides": [2, 1], "pads": [1, 2, 0, 1]},
    ),
    "maxima of volumes": (
        "MaxPool", [(1, 2, 5, 6, 7)], 1, {"kernel_shape": [2, 3, 2], "strides": [2, 1, 2], "ceil_mode": 1}
    ),
    "means of volumes": (
        "AveragePool", [(1, 2, 5, 6, 7)], 1,
        {"kernel_shape": [2, 3, 2], "strides": [1, 2, 2], "pads": [0, 1, 1, 1, 1, 0], "count_include_pad": 1},
    ),
    "means, dilated": (
        "AveragePool", [(1, 2, 9, 8)], 1, {"kernel_shape": [3, 2], "dilations": [2, 3], "pads": [1, 1, 2, 1]}
    ),
    "norms": ("LpPool", [(1, 3, 8, 9)], 1, {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [0, 1, 1, 0]}),
    "norms of single elements": ("LpPool", [(1, 2, 4, 3)], 1, {"kernel_shape": [1, 1], "dilations": [2, 1]}),
    "cubic norms": ("LpPool", [(1, 3, 12)], 1, {"kernel_shape": [4], "p": 3}),
    "norm of all": ("GlobalLpPool", [(2, 3, 4, 5)], 1, {"p": 1}),
    "mean of volumes": ("GlobalAveragePool", [(2, 3, 4, 5, 2)], 1, {}),
    "resized volumes": ("Resize", [(1, 2, 3, 4, 5), None, None, [1, 2, 6, 8, 10]], 1, {"mode": "linear"}),
    "resized line": ("Resize", [(1, 2, 9), None, np.float32([1, 1, 2])], 1, {"nearest_mode": "floor"}),
    "large and cubic": ("Resize", [(1, 1, 40, 50), None, None, [1, 1, 90, 95]], 1, {"mode": "cubic"}),
    "cropped and resized": (
        "Resize", [(1, 2, 8, 7), np.float32([0, 0, -0.1, 0.2, 1, 1, 0.7, 1.3]), None, [1, 2, 5, 9]], 1,
        {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 2.5},
    ),
    "image at places": (
        "GridSample", [(2, 3, 5, 7), (2, 4, 3, 2)], 2,
        {"mode": "cubic", "padding_mode": "reflection", "align_corners": 1},
    ),
    "volume at places": ("GridSample", [(2, 3, 1, 4, 5), (2, 2, 3, 4, 3)], 2, {"padding_mode": "border"}),
    "places": ("AffineGrid", [(2, 3, 4), [2, 1, 2, 3, 4]], 1, {}),
    "taps at places": (
        "DeformConv", [(2, 4, 6, 5), (6, 2, 3, 2), (2, 24, 4, 4), (6,), (2, 12, 4, 4)], 5,
        {"group": 2, "offset_group": 2},
    ),
    "DFT": ("DFT", [(2, 90, 3, 1), [90], [1]], 1, {"onesided": 1}),
    "DFT of complex numbers": ("DFT", [(2, 64, 2), [60], [-2]], 1, {"inverse": 1}),
    "STFT": ("STFT", [(2, 700, 1), [80], np.hanning(200).astype(np.float32), [200]], 1, {}),
}  # fmt: skip


def _values(rng: np.random.Generator, inputs: list[Any]) -> dict[str, np.ndarray]:
    """Inputs by name; single numbers are scalars."""
    made = {f"x{i}": rng.standard_normal(s) if isinstance(s, tuple) else s for i, s in enumerate(inputs)}
    kinds = {name: np.int64 if isinstance(v, list) else np.float32 for name, v in made.items()}
    arrays = {name: np.asarray(v, kinds[name]) for name, v in made.items() if v is not None}
    return {n: a.reshape(()) if a.dtype == np.int64 and a.size == 1 else a for n, a in arrays.items()}


@pytest.mark.parametrize("name", NODES)
def test_node(name: str) -> None:
    op, inputs, fed, attributes = NODES[name]
    values = _values(np.random.default_rng(3), inputs)
    feeds = dict(list(values.items())[:fed])
    constants = dict(list(values.items())[fed:])
    names = [f"x{i}" if given is not None else "" for i, given in enumerate(inputs)]
    proto = model([helper.make_node(op, names, ["y"], **attributes)], feeds, constants, ["y"], opset=20)
    (want,) = by_onnxruntime(proto, feeds)
    graph = read_onnx(proto)
    share = 1e-4 if op == "STFT" else 1e-5  # ONNX Runtime's own is 2e-5 off
    for run in (by_ours, by_litert):
        (got,) = run(graph, feeds)
        np.testing.assert_allclose(got, want, rtol=0, atol=share * np.abs(want).max(), err_msg=run.__name__)


@pytest.mark.parametrize("attributes", [
    {"kernel_shape": [2, 2], "strides": [2, 2]},
    {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 1, 1], "storage_order": 1},
    {"kernel_shape": [2, 3], "dilations": [2, 1], "ceil_mode": 1},
])  # fmt: skip
def test_places_of_maxima(attributes: dict[str, Any]) -> None:
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3, 8, 9)).astype(np.float32)}
    proto = model([helper.make_node("MaxPool", ["x"], ["y", "at"], **attributes)], feeds, {}, ["y", "at"])
    graph = read_onnx(proto)
    for run in (by_ours, by_litert):
        for got, want in zip(run(graph, feeds), by_onnxruntime(proto, feeds), strict=True):
            np.testing.assert_array_equal(got, want)


def test_maxima_put_back() -> None:
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3, 8, 6)).astype(np.float32)}
    window = {"kernel_shape": [2, 3], "strides": [2, 3]}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["y", "at"], **window),
        helper.make_node("MaxUnpool", ["y", "at"], ["z"], **window),
    ]
    proto = model(nodes, feeds, {}, ["z"])
    for run in (by_ours, by_litert):
        np.testing.assert_array_equal(run(read_onnx(proto), feeds)[0], by_onnxruntime(proto, feeds)[0])


@pytest.mark.parametrize(
    "window", [{"strides": [2, 2], "pads": [1, 1, 1, 1]}, {"dilations": [2, 3], "pads": [2, 1, 2, 1]}]
)
def test_padding_of_maxima_takes_no_steps_of_int8(window: dict[str, Any]) -> None:
    """-infinity around an image without positive values."""
    feeds = {"x": np.random.default_rng(0).uniform(-5, -3, (1, 2, 12, 12)).astype(np.float32)}
    proto = model([helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], **window)], feeds, {}, ["y"])
    graph = convert(proto, quantize="int8", inference_type="FLOAT32", calibration={"x": feeds["x"][None]})
    assert any(n.op == "MAX_POOL_2D" and n.output.type == "INT8" for n in graph.nodes)
    np.testing.assert_allclose(by_ours(graph, feeds)[0], by_onnxruntime(proto, feeds)[0], rtol=0, atol=0.02)


def test_places_stay_float_beside_int8() -> None:
    """In 256 steps places on 60 pixels would be a quarter of one off, and their distances to pixels nothing at all."""
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((1, 2, 60, 60)).astype(np.float32)}
    feeds["grid"] = rng.uniform(-1, 1, (1, 9, 8, 2)).astype(np.float32)
    proto = model([helper.make_node("GridSample", ["x", "grid"], ["y"])], feeds, {}, ["y"])
    seen = {name: value[None] for name, value in feeds.items()}
    graph = convert(proto, quantize="int8", inference_type="FLOAT32", calibration=seen)
    want = by_onnxruntime(proto, feeds)[0]
    assert np.sqrt(np.mean((by_ours(graph, feeds)[0] - want) ** 2)) < 0.02 * want.std()


def test_a_large_dilated_maximum_is_a_few_operators() -> None:
    feeds = {"x": np.zeros((1, 1, 130, 170), np.float32)}
    window = {"kernel_shape": [60, 80], "dilations": [2, 2]}
    graph = read_onnx(model([helper.make_node("MaxPool", ["x"], ["y"], **window)], feeds, {}, ["y"]))
    assert len(graph.nodes) < 20


def test_bytes_without_scales_are_pooled() -> None:
    feeds = {"x": np.random.default_rng(0).integers(0, 256, (1, 2, 6, 6)).astype(np.uint8)}
    proto = model([helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2])], feeds, {}, ["y"])
    np.testing.assert_array_equal(by_ours(read_onnx(proto), feeds)[0], by_onnxruntime(proto, feeds)[0])
