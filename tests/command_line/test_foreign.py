"""``inspect`` and ``ops`` of models of other frameworks: what they would become, and all that lacks, at once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from onnx_tools import floats, model

from twinfer.command_line.main import main


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model with an open batch and an open width."""
    monkeypatch.chdir(tmp_path)
    w = floats(np.random.default_rng(0), 2, 3, 3, 3)
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["y"])]
    proto = model(nodes, {"x": np.zeros((1, 3, 8, 8), np.float32)}, {"w": w}, ["y"])
    for at in (0, 3):
        proto.graph.input[0].type.tensor_type.shape.dim[at].dim_param = "NW"[at // 3]
    onnx.save(proto, tmp_path / "net.onnx")
    return tmp_path


def test_what_it_would_become(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "net.onnx"]) == 0
    said = capsys.readouterr()
    assert all(word in said.out for word in ("Conv ", "CONV_2D", "every operator has a kernel"))
    assert "--shape x=1,3,8,224" in said.err
    assert main(["ops", "net.onnx", "--json", "--shape", "x=1,3,8,9"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["supported"], told["source"]) == (True, {"Conv": 1, "Relu": 1})
    assert main(["inspect", "net.onnx", "--shape", "x=1,3,8,9"]) == 0
    assert "1×3×8×9" in capsys.readouterr().out
    assert [path.name for path in net.iterdir()] == ["net.onnx"]


def test_all_that_lacks_is_listed(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proto = onnx.load(net / "net.onnx")
    for at, op in enumerate(("Who", "Who", "What")):
        proto.graph.node.append(helper.make_node(op, ["c"], [f"o{at}"], name=f"n{at}", domain="far"))
        proto.graph.output.append(onnx.ValueInfoProto(name=f"o{at}"))
    proto.opset_import.append(helper.make_opsetid("far", 1))
    onnx.save(proto, net / "net.onnx")
    for command in ("ops", "inspect"):
        assert main([command, "net.onnx", "--shape", "x=1,3,8,9"]) == 1
        said = capsys.readouterr().out
        assert all(f"missing: far:{word}" in said for word in ("Who (2x)", "What (1x)"))
        assert "n0, n1" in said
    assert main(["ops", "net.onnx", "--json", "--shape", "x=1,3,8,9"]) == 1
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 2


def test_a_program_of_torch(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = torch.export.export(torch.nn.Linear(3, 2).eval(), (torch.zeros(1, 3),))
    torch.export.save(program, net / "net.pt2")
    assert main(["ops", "net.pt2"]) == 0
    said = capsys.readouterr().out
    assert "aten.linear.default" in said
    assert "FULLY_CONNECTED" in said


def test_shapes_are_for_such_files_alone(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("ops", "inspect"):
        assert main([command, "kws_int8", "--shape", "x=1"]) == 2
        assert "--shape and --constant are for .onnx" in capsys.readouterr().err


def test_an_empty_file_is_no_model(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (net / "empty.onnx").touch()
    for line in ("convert empty.onnx -o out.tflite", "ops empty.onnx", "inspect empty.onnx"):
        assert main(line.split()) == 2
        assert "it has no graph" in capsys.readouterr().err
