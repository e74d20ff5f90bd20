"""``convert`` and ``twinfer convert``: a model in, a .tflite file out, whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_graphs import random_graph

import twinfer
from twinfer.bench.models.builtin import float_model, samples
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph
from twinfer.runtime.read.tflite import read_file


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "samples.npz"
    np.savez(path, input=np.concatenate(samples("digits", 4)))
    return str(path)


@pytest.fixture
def model(tmp_path: Path) -> str:
    float_model("digits").save(tmp_path / "model.tflite")
    return str(tmp_path / "model.tflite")


def types(graph: Graph) -> set[str]:
    return {t.type for node in graph.nodes for t in node.outputs}


@pytest.mark.parametrize(("mode", "type"), [("int8", "INT8"), ("int16x8", "INT16"), ("int4", "INT8")])
@pytest.mark.filterwarnings("ignore:the int.* model:UserWarning", "ignore:calibration data:UserWarning")
def test_file_in_file_out(model: str, data: str, tmp_path: Path, mode: str, type: str) -> None:
    converted = twinfer.convert_file(model, tmp_path / "out.tflite", quantize=mode, calibration=data).graph
    assert types(converted) == types(read_file(tmp_path / "out.tflite")) == {type}
    assert any(t.type == "INT4" for t in converted.tensors) == (mode == "int4")


def open_shape(shape: tuple[int, ...], signature: tuple[int, ...]) -> Graph:
    from dataclasses import replace

    graph = random_graph(1, ["relu"])
    (x,), (node,) = graph.inputs, graph.nodes
    new = replace(x, shape=shape, shape_signature=signature)
    out = replace(node.output, shape=shape, shape_signature=signature)
    open_node = replace(node, inputs=(new,), outputs=(out,))
    return replace(graph, tensors=(new, out), nodes=(open_node,), inputs=(new,), outputs=(out,), signatures=())


def test_open_dimensions_are_closed() -> None:
    batch = twinfer.convert(open_shape((1, 4, 4, 2), (-1, 4, 4, 2)))
    assert all(not t.shape_signature for t in batch.tensors)
    wide = twinfer.convert(open_shape((1, 1, 1, 2), (1, -1, -1, 2)), shapes={"x": (1, 6, 5, 2)})
    assert wide.outputs[0].shape == (1, 6, 5, 2)
    with pytest.raises(InvalidArgumentError, match=r"input 'x' \[1, \?, \?, 2\] is open.* --shape x=1,224,224,2"):
        twinfer.convert(open_shape((1, 1, 1, 2), (1, -1, -1, 2)))
    with pytest.raises(InvalidArgumentError, match="no input is called 'y'; the inputs are: 'x'"):
        twinfer.convert(open_shape((1, 4, 4, 2), (-1, 4, 4, 2)), shapes={"y": (1, 6, 5, 2)})


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"quantize": "int8"}, r"needs samples .* calibration=.* --calibration FILE"),
        ({"calibration": {}}, "without quantize"),
        ({"equalize": True}, "without quantize"),
        ({"refine": True}, "without quantize"),
        ({"method": "mse"}, "without quantize"),
        ({"inference_type": "INT8"}, "without quantize"),
        ({"bias_correction": True}, "without quantize"),
        ({"adaptive_rounding": True}, "without quantize"),
        ({"recipe": "r.toml"}, "cannot be read"),
        ({"quantize": "int3", "calibration": {}}, "cannot quantise to 'int3'"),
        ({"quantize": "int8", "calibration": {}, "method": "best"}, "no method"),
    ],
)
def test_arguments_that_do_not_fit(how: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        twinfer.convert(float_model("digits"), **how)


def test_no_half_files(model: str, data: str, tmp_path: Path) -> None:
    out = tmp_path / "out.tflite"
    out.write_bytes(b"before")
    with pytest.raises(InvalidArgumentError, match="empty"):
        twinfer.convert_file(model, out, quantize="int8", calibration=[])
    assert out.read_bytes() == b"before"
    with pytest.raises(InvalidArgumentError, match="cannot be written"):
        twinfer.convert_file(model, tmp_path / "none" / "out.tflite")
    with pytest.raises(InvalidArgumentError, match="no such file"):
        twinfer.convert(tmp_path / "none.tflite")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.tflite", "out.tflite", "samples.npz"]
