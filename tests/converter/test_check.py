"""A result beside its source, in the source's own runtime: the figures, layouts, and where a fault is."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from needs import needs
from onnx import helper
from onnx_tools import floats, model

import twinfer
from twinfer.converter.check import check
from twinfer.converter.passes._rewrite import swap_tensors
from twinfer.converter.runtimes import BOUND
from twinfer.converter.source import read_source
from twinfer.runtime.errors import InvalidArgumentError, ToolError
from twinfer.runtime.graph import Graph

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = needs("keras", os.environ["KERAS_BACKEND"])

#: Keras's warning when it turns a PyTorch tensor into an array under NumPy 2.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")

RNG = np.random.default_rng(0)


def images() -> onnx.ModelProto:
    """Two inputs, of which the second is indices; all extents of the image are equal, so that shapes say no layout."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Gather", ["t", "i"], ["e"], axis=0),
        helper.make_node("Mul", ["r", "e"], ["y"]),
        helper.make_node("ReduceMean", ["y"], ["z"], axes=[2, 3], keepdims=0),
    ]
    constants = {"w": floats(RNG, 3, 3, 3, 3), "t": floats(RNG, 7, 1, 1, 1)}
    return model(nodes, {"x": floats(RNG, 1, 3, 3, 3), "i": np.array([1])}, constants, ["y", "z"])


def keras_file(folder: Path) -> str:
    layers = [keras.layers.Conv2D(4, 3), keras.layers.Dropout(0.5), keras.layers.Flatten(), keras.layers.Dense(3)]
    keras.Sequential([keras.Input((6, 5, 3)), *layers]).save(folder / "net.keras")
    return str(folder / "net.keras")


def torch_file(folder: Path) -> str:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3)

        def forward(self, x: Any, k: Any) -> Any:
            return {"b": self.conv(x) * k, "a": x.mean((2, 3))}

    program = torch.export.export(Net().eval(), (torch.zeros(1, 3, 5, 5), torch.zeros(1)))
    torch.export.save(program, folder / "net.pt2")
    return str(folder / "net.pt2")


SOURCES: dict[str, Any] = {
    "ONNX Runtime": lambda folder: images(),
    "Keras": keras_file,
    "PyTorch": torch_file,
    "the model before the passes": lambda folder: twinfer.from_keras(keras_file(folder)),
}


@pytest.mark.parametrize("how", [{}, {"channels_last": True}], ids=["as it is", "channels last"])
@pytest.mark.parametrize("engine", SOURCES)
@pytest.mark.filterwarnings("ignore:channels_last changes nothing")
def test_every_runtime(engine: str, how: dict[str, Any], tmp_path: Path) -> None:
    source = SOURCES[engine](tmp_path)
    checked = check(source, twinfer.convert(source, **how))
    assert checked.engine.startswith(engine)
    assert checked.good
    assert len(checked.outputs) == (1 if "Keras" in engine or "model" in engine else 2)
    assert all(output.span > 0 and output.share < 1e-5 and output.cosine > 0.999 for output in checked.outputs)
    assert "3 random samples" in str(checked)


def test_constants_and_given_samples(tmp_path: Path) -> None:
    for source, name in ((images(), "i"), (torch_file(tmp_path), "k")):
        constants = {name: np.array([2])}
        graph = twinfer.convert(source, constants=constants, channels_last=True)
        samples = floats(RNG, 5, *graph.inputs[0].shape[1:])
        checked = check(source, graph, samples, constants=constants, most=4)
        assert checked.good
        assert checked.samples == 4


def test_quantised_results_have_no_bound_of_their_own() -> None:
    source, rows = images(), {"x": floats(RNG, 20, 3, 3, 3), "i": RNG.integers(0, 7, (20, 1))}
    graph = twinfer.convert(source, quantize="int8", calibration=rows)
    checked = check(source, graph, rows)
    assert checked.good
    assert checked.quantised
    assert 25 < min(output.snr_db for output in checked.outputs) < 70
    assert " dB" in str(checked)
    assert not check(source, graph, rows, bound=BOUND).good


def broken(graph: Graph, name: str) -> Graph:
    weights = next(t for t in graph.tensors if t.data is not None and t.data.ndim == 4 and t.size > 9)
    data = np.array(weights.data)
    data.flat[3] += 1
    return swap_tensors(graph, {weights: replace(weights, data=data)})


@pytest.mark.parametrize("how", [{}, {"channels_last": True}], ids=["as it is", "channels last"])
def test_a_fault_of_a_pass_is_found(how: dict[str, Any]) -> None:
    checked = check(images(), broken(twinfer.convert(images(), **how), "r"))
    assert not checked.good
    assert checked.first is not None
    assert checked.first.operator == "CONV_2D"
    assert "a pass changes it" in str(checked)


def test_a_fault_of_reading_is_found() -> None:
    source = images()
    wrong = broken(read_source(source), "c")
    checked = check(source, twinfer.convert(wrong), imported=wrong)
    assert not checked.good
    assert checked.first is not None
    assert checked.first.name == "c"
    assert "as soon as it is read" in str(checked)


def test_what_cannot_be_compared_is_said() -> None:
    graph = twinfer.convert(images())
    with pytest.raises(InvalidArgumentError, match="the source has 2 inputs, the result 1"):
        check(images(), twinfer.convert(images(), constants={"i": [1]}))
    other = images()
    other.graph.node.append(helper.make_node("NoSuch", ["y"], ["v"], domain="nowhere"))
    other.opset_import.append(helper.make_opsetid("nowhere", 1))
    with pytest.raises(ToolError, match="ONNX Runtime cannot run the model"):
        check(other, graph, imported=read_source(images()))
