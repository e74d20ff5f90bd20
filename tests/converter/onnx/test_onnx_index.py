"""Operators that pick and put elements by numbers, and parts of images, against ONNX Runtime: in our interpreter and in
LiteRT, with numbers at run time and as constants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_tools import by_litert, by_onnxruntime, by_ours, compare, floats, model

from twinfer.converter.onnx import read_onnx
from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import Graph

RNG = np.random.default_rng(7)


class Try(NamedTuple):
    """A node, its inputs in order, and attributes. The first ``fed`` inputs come at run time; the others are constants.
    ``most``: operators that the graph may have."""

    op: str
    inputs: tuple[Any, ...]
    attributes: dict[str, Any] = {}  # noqa: RUF012
    fed: int = 9
    most: int = 99
    outputs: int = 1


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def numbers(extent: int, *shape: int) -> np.ndarray:
    """Numbers of elements, from the front and from the end."""
    return RNG.integers(-extent, extent, shape)


def apart(extent: int, *shape: int) -> np.ndarray:
    """The same, of which no two along the last axis are equal."""
    return np.array([RNG.permutation(extent)[: shape[-1]] for _ in range(int(np.prod(shape[:-1])))]).reshape(shape)


X = floats(RNG, 2, 5, 4)
IMAGE = floats(RNG, 2, 3, 9, 8)
PLACES = np.array([[0, 1], [1, -1], [0, 3]], np.int64)
BOXES = np.array([[1, 1, 6, 7], [0, 2, 3, 5], [2.5, 0, 7.4, 8.2], [-3, -3, 12, 4]], np.float32)
ROIS = np.concatenate([np.array([[0], [1], [1], [0]], np.float32), np.clip(BOXES, 0, 7)], 1)
ALIGN: dict[str, Any] = {"output_height": 2, "output_width": 3, "spatial_scale": 0.7}


def tries() -> Iterator[Try]:
    for axis in (0, 1, -1):
        for fed in (1, 2):
            yield Try("GatherElements", (X, numbers(X.shape[axis], 2, 3, 2)), {"axis": axis}, fed)
    whole = np.broadcast_to(ints(4, 0, -2).reshape(1, 3, 1), (2, 3, 4)).copy()
    yield Try("GatherElements", (X, whole), {"axis": 1}, 1, 1)
    for how in ("none", "add", "mul", "max", "min"):
        for fed in (1, 3):
            yield Try("ScatterND", (X, PLACES, floats(RNG, 3, 4)), {"reduction": how}, fed)
            at, updates = apart(5, 2, 3, 4).transpose(0, 2, 1)[:, :3], floats(RNG, 2, 3, 3)
            yield Try("ScatterElements", (X, at, updates), {"axis": 1, "reduction": how}, fed)
    lines = np.broadcast_to(ints(1, 2).reshape(1, 2, 1), (2, 2, 4)).copy()
    yield Try("ScatterElements", (X, lines, floats(RNG, 2, 2, 4)), {"axis": 1}, 1, 1)
    yield Try("ScatterElements", (X, lines * 2, floats(RNG, 2, 2, 4)), {"axis": 1}, 1, 2)
    bytes_ = (X.astype(np.int8), numbers(4, 2, 5, 6), np.ones((2, 5, 6), np.int8))
    yield Try("ScatterElements", bytes_, {"axis": 2, "reduction": "add"})
    yield Try("ScatterND", (X, ints(1, 2).reshape(1, 2), floats(RNG, 1, 4)), {}, 9, 9)
    box = np.stack(np.meshgrid(ints(0, 1), ints(2, 3), indexing="ij"), -1)
    yield Try("ScatterND", (X, box, floats(RNG, 2, 2, 4)), {}, 1, 1)
    yield Try("ScatterND", (X.astype(np.int64), PLACES, np.ones((3, 4), np.int64)), {"reduction": "add"})
    yield Try("GatherND", (X, numbers(4, 2, 3, 1)), {"batch_dims": 1})
    pairs = np.stack([numbers(4, 2, 3, 2), numbers(5, 2, 3, 2)], -1)
    for fed in (1, 2):
        yield Try("GatherND", (floats(RNG, 2, 3, 4, 5), pairs), {"batch_dims": 2}, fed)
    for type in (np.float32, np.int32, np.int64, np.uint8):
        yield Try("TopK", ((X * 3).astype(type), ints(3)), {"axis": -1}, 1, 99, 2)
        yield Try("TopK", ((X * 3).astype(type), ints(3)), {"axis": 1, "largest": 0}, 1, 99, 2)
    yield Try("Compress", (X, np.array([True, False, True, True])), {"axis": 1}, 1)
    yield Try("Compress", (X, np.array([False, True, True])), {"axis": 1}, 1, 1)
    yield Try("Compress", (X, np.array([True, False] * 5)), {}, 1)
    for time, lengths in ((0, ints(1, 2, 0, 2, 1)), (1, ints(5, 3))):
        for fed in (1, 2):
            yield Try("ReverseSequence", (X, lengths), {"time_axis": time, "batch_axis": 1 - time}, fed)
    yield Try("EyeLike", (X[0],), {"k": 1, "dtype": onnx.TensorProto.INT32})


def moves() -> Iterator[Try]:
    for mode in ("constant", "reflect", "edge", "wrap"):
        yield Try("Pad", (floats(RNG, 3, 6), ints(2, -1, 1, 3)), {"mode": mode}, 1)
    yield Try("Pad", (IMAGE[:1], ints(0, 0, 2, 1, 0, 0, 3, 4)), {"mode": "reflect"}, 1, 3)
    yield Try("Pad", (floats(RNG, 3, 4), ints(2, 0), np.array(2.5, np.float32), ints(-1)), {}, 1)
    yield Try("Pad", (X, ints(0, 2, 1, 0, 0, 3), np.array(2.5, np.float32)), {}, 3)
    yield Try("Tile", (floats(RNG, 2, 3, 2, 3), ints(2, 3, 2, 2)), {}, 1)
    yield Try("Slice", (X, ints(4, -1), ints(-9, 0), ints(1, 2), ints(-2, -1)), {}, 1)
    yield Try("Transpose", (floats(RNG, 2, 3, 2, 3, 2, 2),), {"perm": [5, 2, 0, 4, 1, 3]})


def regions() -> Iterator[Try]:
    given = (IMAGE, BOXES, ints(0, 1, 1, 0))
    yield Try("RoiAlign", given, {**ALIGN, "sampling_ratio": 2})
    yield Try("RoiAlign", given, {**ALIGN, "sampling_ratio": 2, "mode": "max"}, 1)
    yield Try("RoiAlign", (IMAGE, BOXES[:2], ints(0, 1)), ALIGN, 1, 999)
    yield Try("RoiAlign", given, {**ALIGN, "coordinate_transformation_mode": "output_half_pixel"}, 1, 999)
    yield Try("MaxRoiPool", (IMAGE, ROIS), {"pooled_shape": [3, 2], "spatial_scale": 0.9}, 1, 999)
    yield Try("Col2Im", (floats(RNG, 2, 12, 4), ints(5, 7), ints(2, 2)), {"strides": [2, 3], "dilations": [1, 2]}, 1, 6)
    yield Try("Col2Im", (floats(RNG, 1, 6, 7), ints(9), ints(3)), {}, 1)


TRIES = (*tries(), *moves(), *regions())


def graph_of(each: Try) -> tuple[onnx.ModelProto, Graph, dict[str, np.ndarray]]:
    names = [f"i{i}" for i in range(len(each.inputs))]
    given = dict(zip(names, each.inputs, strict=True))
    fed = {name: given[name] for i, name in enumerate(names[: each.fed]) if (each.op, i) != ("Pad", 1)}
    outputs = [f"o{i}" for i in range(each.outputs)]
    node = helper.make_node(each.op, names, outputs, **each.attributes)
    proto = model([node], fed, {name: given[name] for name in names if name not in fed}, outputs, opset=18)
    return proto, read_onnx(proto), fed


@pytest.mark.parametrize("each", TRIES, ids=lambda each: each.op)
def test_as_onnxruntime(each: Try) -> None:
    proto, graph, fed = graph_of(each)
    wanted = by_onnxruntime(proto, fed)
    for run in (by_ours, by_litert):
        compare(run(graph, fed), wanted)
    assert len(graph.nodes) <= each.most, [node.op for node in graph.nodes]


@pytest.mark.parametrize(
    ("each", "words"),
    [
        (Try("Compress", (X, np.ones(5, np.bool_)), {"axis": 1}), "run time.*Where"),
        (Try("NonZero", (X,)), "fixed size"),
        (Try("Unique", (X,)), "fixed size"),
        (Try("Range", (np.float32(0), np.float32(3), np.float32(1)), {}), "fixed size"),
        (Try("RoiAlign", (IMAGE, BOXES, ints(0, 1, 1, 0)), ALIGN), "sampling_ratio"),
        (Try("ScatterND", (X.astype(np.int64), PLACES, np.ones((3, 4), np.int64)), {"reduction": "mul"}), "INT32"),
    ],
)
def test_what_is_refused(each: Try, words: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=words):
        graph_of(each)


def test_sequences_leave_no_operator() -> None:
    """A tensor taken apart, changed as a list, and put together again."""
    make = helper.make_node
    nodes = [
        make("SplitToSequence", ["x", "two"], ["parts"], axis=1),
        make("SequenceAt", ["parts", "last"], ["tail"]),
        make("SequenceErase", ["parts", "zero"], ["rest"]),
        make("SequenceInsert", ["rest", "tail", "last"], ["more"]),
        make("Identity", ["tail"], ["same"]),
        make("SequenceConstruct", ["same", "tail"], ["pair"]),
        make("ConcatFromSequence", ["pair"], ["stacked"], axis=0, new_axis=1),
        make("ConcatFromSequence", ["more"], ["y"], axis=1),
        make("SequenceLength", ["more"], ["count"]),
        make("SplitToSequence", ["x"], ["rows"], axis=0, keepdims=0),
        make("SequenceAt", ["rows", "last"], ["row"]),
    ]
    constants = {"two": np.array(2, np.int64), "last": np.array(-1, np.int64), "zero": np.array(0, np.int64)}
    proto = model(nodes, {"x": X}, constants, ["y", "stacked", "count", "row"])
    compare(by_ours(read_onnx(proto), {"x": X}), by_onnxruntime(proto, {"x": X}))
    proto = model(nodes[:1], {"x": X}, constants, ["parts"])
    with pytest.raises(UnsupportedOperatorError, match="sequence"):
        read_onnx(proto)
