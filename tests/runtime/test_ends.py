"""Integers at the ends of a model: what is handed over, what stays, and that the values are the same."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import outputs_of

import twinfer
from twinfer.aot.build.host import compile_plans
from twinfer.aot.print.emit import emit
from twinfer.bench.models import source
from twinfer.bench.models.source import load_with
from twinfer.command_line.main import main
from twinfer.converter.build import Builder
from twinfer.runtime.check import check
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Signature, Tensor
from twinfer.runtime.metadata import OFFLINE_PLAN
from twinfer.runtime.op import tensor
from twinfer.runtime.passes.ends import Io, with_io
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session

SHAPE = (1, 6, 5, 3)


def quantized(kind: str, name: str) -> Tensor:
    return tensor(SHAPE, kind, 0.05, -3 if kind == "INT8" else 0, name=name)


def model(kind: str = "INT8", first: bool = True, last: bool = True) -> Graph:
    """RELU of integers behind a float input and before a float output, where ``first`` and ``last`` say so."""
    b = Builder("model")
    x = b.input("x", "FLOAT32", SHAPE) if first else b.input("x", kind, SHAPE)
    q, r = quantized(kind, "q"), quantized(kind, "r")
    if first:
        b.node("QUANTIZE", [x], [q])
    else:
        b.inputs[0] = b.add(q)
    b.node("RELU", [q], [r])
    if not last:
        return b.graph([r])
    y = tensor(SHAPE, name="y")
    b.node("DEQUANTIZE", [r], [y])
    return b.graph([y])


def types(graph: Graph) -> tuple[str, str]:
    check(graph)
    return graph.inputs[0].type, graph.outputs[0].type


@pytest.mark.parametrize("io", ["int8", "int16"])
@pytest.mark.parametrize(("first", "last"), [(True, True), (True, False), (False, True)])
def test_the_integers_are_those_of_the_float_model(io: Io, first: bool, last: bool) -> None:
    graph = model(io.upper(), first, last)
    changed = with_io(graph, io)
    assert types(changed) == (io.upper(), io.upper())
    assert [node.op for node in changed.nodes] == ["RELU"]
    q, r = changed.inputs[0], changed.outputs[0]
    given = np.random.default_rng(1).integers(-128, 128, SHAPE).astype(q.dtype)
    real = ((given.astype(np.float32) - q.zero) * np.float32(q.scale)) if first else given
    (want,), (got,) = outputs_of(Session(make_plan(graph)), [real]), outputs_of(Session(make_plan(changed)), [given])
    compiled = outputs_of(compile_plans({"m": make_plan(changed)})["m"], [given])[0]
    np.testing.assert_array_equal(compiled, got)
    meant = (got.astype(np.float32) - np.float32(r.zero)) * np.float32(r.scale) if last else got
    np.testing.assert_array_equal(meant, want)
    assert len(np.unique(got)) > 10


def test_float_and_a_model_of_integers_stay() -> None:
    graph = model()
    assert with_io(graph, "float") is graph
    integers = model(first=False, last=False)
    assert with_io(integers, "int8") is integers


def test_signatures_follow_and_a_plan_of_other_tensors_goes() -> None:
    graph = model()
    named = Signature("serve", {"x": graph.inputs[0]}, {"y": graph.outputs[0]})
    changed = with_io(replace(graph, signatures=(named,), metadata={OFFLINE_PLAN: b"", "other": b"1"}), "int8")
    (signature,) = changed.signatures
    assert signature.inputs == {"x": changed.inputs[0]}
    assert signature.outputs == {"y": changed.outputs[0]}
    assert dict(changed.metadata) == {"other": b"1"}


def test_an_end_that_others_need_stays() -> None:
    """The float input has a second reader; the float output is read once more, or its integers are an output, too."""
    graph = model()
    twice = tensor(SHAPE, name="z")
    relu = replace(graph.nodes[1], inputs=graph.inputs, outputs=(twice,))
    more = replace(graph, tensors=(*graph.tensors, twice), nodes=(*graph.nodes, relu), outputs=(*graph.outputs, twice))
    assert types(with_io(more, "int8")) == ("FLOAT32", "INT8")
    both = replace(graph, outputs=(*graph.outputs, graph.nodes[1].output))
    assert types(with_io(both, "int8")) == ("INT8", "FLOAT32")
    reread = replace(relu, inputs=graph.outputs)
    nodes, outputs = (*graph.nodes, reread), (*graph.outputs, twice)
    behind = replace(graph, tensors=(*graph.tensors, twice), nodes=nodes, outputs=outputs)
    assert types(with_io(behind, "int8")) == ("INT8", "FLOAT32")


def test_quantize_and_dequantize_alone_keep_an_operator() -> None:
    b = Builder("ends")
    x, q, y = b.input("x", "FLOAT32", SHAPE), quantized("INT8", "q"), tensor(SHAPE, name="y")
    b.node("QUANTIZE", [x], [q])
    b.node("DEQUANTIZE", [q], [y])
    changed = with_io(b.graph([y]), "int8")
    assert types(changed) == ("INT8", "FLOAT32")
    assert [node.op for node in changed.nodes] == ["DEQUANTIZE"]


def floats() -> Graph:
    b = Builder("floats")
    return b.graph([b.op("RELU", [b.input("x", "FLOAT32", SHAPE)])])


@pytest.mark.parametrize(
    ("graph", "io", "message"),
    [
        (floats(), "int8", r"no input can be int8: tensor 'x' FLOAT32.* is read by operator 0 RELU"),
        (model(), "int16", r"no input can be int16: tensor 'x' FLOAT32.* is read by operator 0 QUANTIZE"),
        (
            model("INT16", first=False),
            "int8",
            r"no output can be int8: tensor 'y' .* is written by operator 1 DEQUANTIZE",
        ),
        (model(), "uint8", r"io 'uint8' does not exist, only float, int8, int16"),
    ],
)
def test_what_is_refused(graph: Graph, io: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        with_io(graph, io)


def test_from_python() -> None:
    compiled = twinfer.compile(model(), io="int8")
    (x,), (y,) = compiled.get_input_details(), compiled.get_output_details()
    assert x["dtype"] is y["dtype"] is np.int8
    with pytest.raises(InvalidArgumentError, match="RELU"):
        twinfer.compile(floats(), io="int8")
    header = emit(make_plan(with_io(model(), "int8")), "m").files["m.h"]
    for line in ("M_INPUT_0_ZERO_POINT", "M_OUTPUT_0_SCALE", "int8_t m_quantize_input_0", "m_dequantize_output_0"):
        assert line in header


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, x, y = (str(tmp_path / name) for name in ("model.tflite", "x.npy", "y.npy"))
    model().save(file)
    np.save(x, np.arange(-45, 45, dtype=np.int8).reshape(SHAPE))
    assert main(["run", file, "--io", "int8", "--input", x, "--output", y]) == 0
    np.testing.assert_array_equal(np.load(y).reshape(-1), np.arange(-45, 45).clip(-3))
    assert main(["compile", file, "--io", "int8", "-o", str(tmp_path / "c")]) == 0
    assert "MODEL_INPUT_0_SCALE" in (tmp_path / "c" / "model.h").read_text()
    capsys.readouterr()
    assert main(["inspect", file, "--io", "int8"]) == 0
    assert "QUANTIZE" not in capsys.readouterr().out
    assert main(["verify", file, "--io", "int8"]) == 0
    assert main(["verify", file, "--io", "int16"]) == 2
    assert "'x'" in capsys.readouterr().err
    assert types(twinfer.read(load_with(file, "int8").content)) == ("INT8", "INT8"), "written anew for others"


@pytest.mark.parametrize(
    "line",
    [
        *("run M", "compile M -o c", "inspect M", "verify M", "explain M", "report M -o r.html", "diff M M -o d.html"),
        "diff kws_int8 --with='--memory rows'",
    ],
)
def test_every_command_hands_it_on(line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []

    def noted(graph: Graph, io: str) -> Graph:
        asked.append(io)
        raise InvalidArgumentError("noted")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(source, "with_io", noted)
    assert main([*shlex.split(line.replace("M", "digits_int8", 1).replace("M", "kws_int8")), "--io", "int16"]) == 2
    assert asked == ["int16"]
