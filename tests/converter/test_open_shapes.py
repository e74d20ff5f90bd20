"""Shapes that a model leaves open: a suggestion is one that works, and all inputs are named at once."""

from __future__ import annotations

import shlex
from pathlib import Path

import onnx
import pytest
from onnx import helper

import twinfer
from twinfer.command_line.main import main
from twinfer.runtime.errors import InvalidArgumentError


def frames(*names: str, reshapes: int = 0) -> onnx.ModelProto:
    """Inputs of [N, samples] and a state of [2, N, 4]; with ``reshapes``, so many samples are needed."""
    inputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", "samples"]) for name in names]
    inputs.append(helper.make_tensor_value_info("state", onnx.TensorProto.FLOAT, [2, "N", 4]))
    nodes = [helper.make_node("Reshape", [names[0], "shape"], ["y"]), helper.make_node("Neg", ["state"], ["z"])]
    shape = helper.make_tensor("shape", onnx.TensorProto.INT64, [2], [reshapes or 1, -1 if not reshapes else 1])
    outputs = [onnx.ValueInfoProto(name=name) for name in "yz"]
    graph = helper.make_graph(nodes, "net", inputs, outputs, [shape])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_what_is_suggested_works() -> None:
    """512 samples are the first of those tried that the reshape takes; the batch is 1 everywhere."""
    source = frames("audio", reshapes=512)
    with pytest.raises(InvalidArgumentError, match=r"--shape audio=1,512 --shape state=2,1,4$"):
        twinfer.convert(source)
    assert twinfer.convert(source, shapes={"audio": (1, 512), "state": (2, 1, 4)}).inputs


def test_nothing_is_suggested_that_does_not_work() -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"made for: --shape audio=D,D --shape other=D,D --shape state=2,D,4$"
    ):
        twinfer.convert(frames("audio", "other", reshapes=77))


def test_only_what_is_still_open_is_asked_for() -> None:
    with pytest.raises(InvalidArgumentError, match=r"example: --shape audio=1,32$"):
        twinfer.convert(frames("audio"), shapes={"state": (2, 1, 4)})


#: Shapes of inputs by name, and the options that are suggested.
OPEN = {
    "a batch, which is 1": ({"x": ["N", 4]}, ""),
    "-1 and 0 for the batch": ({"x": [-1, 4], "y": [0, 4]}, ""),
    "samples": ({"audio in": ["N", -1]}, "--shape 'audio in=1,32'"),
    "a state of any name": ({"input": [None, None], "state": [2, None, 8]}, "--shape input=1,32 --shape state=2,1,8"),
    "a state by the batch's name": ({"h": [2, "b", 8], "x": ["b", "t"]}, "--shape h=2,1,8 --shape x=1,32"),
    "frames between others": ({"speech": [1, "frames", 40]}, "--shape speech=1,32,40"),
    "an image": ({"x": ["N", 3, "h", "w"]}, "--shape x=1,3,224,224"),
    "one dimension": ({"x": ["n"]}, "--shape x=1"),
}


@pytest.mark.parametrize("name", OPEN)
def test_suggested_commands_run(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``convert`` asks; with what it suggests it runs. ``inspect`` and ``ops`` assume the same, and say so."""
    shapes, options = OPEN[name]
    inputs = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, dims) for n, dims in shapes.items()]
    outputs = [onnx.ValueInfoProto(name=f"{n}'") for n in shapes]
    nodes = [helper.make_node("Neg", [n], [f"{n}'"]) for n in shapes]
    graph = helper.make_graph(nodes, "net", inputs, outputs)
    path = str(tmp_path / "net.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    convert = ["convert", path, "-o", str(tmp_path / "net.tflite")]
    assert main(convert) == (2 if options else 0)
    assert capsys.readouterr().err.partition("for example: ")[2].rstrip() == options
    assert main([*convert, *shlex.split(options)]) == 0
    for command in ("inspect", "ops"):
        capsys.readouterr()
        assert main([command, path]) == 0
        assert capsys.readouterr().err.partition("were assumed: ")[2].rstrip() == options
        assert main([command, path, *shlex.split(options)]) == 0
