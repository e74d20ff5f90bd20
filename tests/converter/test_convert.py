"""``convert`` and ``twinfer convert``: a model in, a .tflite file out, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import Page, ShownChart
from random_graphs import random_graph

import twinfer
from twinfer.bench.models.builtin import float_model, samples
from twinfer.bench.page.page import data_of
from twinfer.command_line.main import main
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
    with pytest.raises(InvalidArgumentError, match=r"shape of 'x' \[1, -1, -1, 2\] is open.*--shape"):
        twinfer.convert(open_shape((1, 1, 1, 2), (1, -1, -1, 2)))
    with pytest.raises(InvalidArgumentError, match="no input is called 'y'; the inputs are: 'x'"):
        twinfer.convert(open_shape((1, 4, 4, 2), (-1, 4, 4, 2)), shapes={"y": (1, 6, 5, 2)})


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"quantize": "int8"}, r"needs samples .* calibration=.* --calibration FILE"),
        ({"calibration": {}}, "without quantize"),
        ({"equalize": True}, "without quantize"),
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


# -- the command -------------------------------------------------------------------------------------------------------


def test_command(model: str, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, report = str(tmp_path / "out.tflite"), tmp_path / "report.json"
    command = ["convert", model, "-o", out, "--quantize", "int8", "--calibration", data, "--report", str(report)]
    assert main([*command, "--inference-type", "float32", "--bias-correction", "--method", "mse"]) == 0
    said = capsys.readouterr().out
    assert "9 operators, 1 of them float" in said  # without the RESHAPE, with QUANTIZE and DEQUANTIZE
    assert "One layer quantised alone" in said
    content = json.loads(report.read_text())
    assert content["samples"] == 4
    assert len(content["sensitivity"]) == 7
    names = [tensor["name"] for tensor in content["tensors"]]
    graph = read_file(out)
    order = [t.name for t in (*graph.inputs, *(node.output for node in graph.nodes)) if t.name in names]
    assert names == list(dict.fromkeys(order)), "as the model runs"
    assert read_file(out).inputs[0].type == "FLOAT32"


def test_the_report_as_a_page(model: str, data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bar and a histogram per tensor, a bar per layer; a red bound only if values are beyond it."""
    file = tmp_path / "report.html"
    command = ["convert", model, "-o", str(tmp_path / "out.tflite"), "--quantize", "int8", "--calibration", data]
    assert main([*command, "--method", "percentile", "--report", str(file)]) == 0
    page, report = Page(file.read_text()), data_of(file.read_text())
    bars, costs, *histograms = page.charts
    names = [tensor["name"] for tensor in report["tensors"]]
    assert names == bars.column("tensor") == page.tables[0].column("tensor") == [each.title for each in histograms]
    assert bars.column("SNR dB") == [float(text) for text in page.tables[0].column("SNR dB")]
    assert [row["tensor"] for row in bars.rows if row["worst"]] == [names[int(np.argmin(bars.column("SNR dB")))]]
    assert costs.column("layer") == [layer["name"] for layer in report["sensitivity"]]
    assert len(costs.rows) == 7
    assert page.tables[1].column("layer") == [layer["name"] for layer in report["compression"]]
    for histogram, tensor in zip(histograms, report["tensors"], strict=True):
        _check_histogram(histogram, tensor)
    assert any(histogram.layers("rule") for histogram in histograms)
    assert page.loads == []


def _check_histogram(histogram: ShownChart, tensor: dict[str, Any]) -> None:
    """Every bar from edge to edge, the outline of the quantised values, and bounds inside the picture."""
    edges, (line,) = tensor["edges"], histogram.layers("line")
    assert [*histogram.column("from"), edges[-1]] == edges == [edges[0], *histogram.column("to")]
    assert histogram.column("float") == tensor["counts"]
    steps = line["data"]["values"]
    assert [step["x"] for step in steps] == edges
    assert [step["count"] for step in steps[:-1]] == tensor["quantized_counts"]
    low, high = (((-128, 127)[i] - tensor["zero_point"]) * tensor["scale"] for i in (0, 1))
    wanted = [pytest.approx(bound) for bound in (low, high) if edges[0] <= bound <= edges[-1]]
    assert [rule["encoding"]["x"]["datum"] for rule in histogram.layers("rule")] == wanted


def test_command_with_passes_and_dump(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["convert", "digits_float32", "-o", str(tmp_path / "x.tflite"), "--dump", str(tmp_path / "dump")]
    assert main([*command, "--passes", "reshapes,dead_code"]) == 0
    names = sorted(path.name for path in (tmp_path / "dump").iterdir())
    assert names == ["01-reshapes.txt", "02-dead_code.txt"]
    ops = [node.op for node in read_file(tmp_path / "x.tflite").nodes]
    last = (tmp_path / "dump" / names[-1]).read_text().splitlines()
    assert [line.split("= ")[1].partition("(")[0] for line in last if " = " in line] == ops
    assert main([*command, "--passes", "none"]) == 0
    assert len(read_file(tmp_path / "x.tflite").nodes) > len(ops)
    assert main([*command, "--passes", "magic"]) == 2
    assert "there is no 'magic'; there are: batch_norm" in capsys.readouterr().err
    assert main([*command[:-1], str(tmp_path / "x.tflite")]) == 2
    assert "x.tflite: cannot be written: it is not a folder" in capsys.readouterr().err
