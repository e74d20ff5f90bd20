"""Models over windows become models over steps: the same bits, fewer multiply-accumulates, everywhere."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twinfer.aot.build.host import build
from twinfer.aot.print.emit import emit
from twinfer.bench.models.builtin import builtin
from twinfer.bench.peers.engines import open_peer
from twinfer.command_line.main import main
from twinfer.converter.build import Builder
from twinfer.converter.stream.convert import Streaming, prove, stream
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Signature
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.read.tflite import read, read_file
from twinfer.runtime.run.interpreter import Interpreter
from twinfer.runtime.run.stream import METADATA
from twinfer.runtime.tools import find_compiler
from twinfer.runtime.write.tflite import write

#: Models, and how many times fewer multiply-accumulates a step takes than a window, at least.
MODELS = {"tcn_int8": 49, "tcn_float32": 49, "kws_int8": 2.4, "kws_float32": 2.4}
CORPUS = {"mlp_sww_int8": 17, "mlp_kws_int8": 2.4, "tflm_micro_speech_quantized": 3.6}


def assert_streams(graph: Graph, ratio: float) -> Streaming:
    streaming = stream(graph)
    proof = prove(graph, streaming)
    assert (proof.windows, proof.different) == (3 * streaming.steps + 1, 0), "three that share no row, those between"
    assert make_plan(graph).macs >= ratio * make_plan(streaming.graph).macs
    return streaming


@pytest.mark.parametrize("name", MODELS)
def test_builtin_models(name: str) -> None:
    assert_streams(builtin()[name](), MODELS[name])


@pytest.mark.parametrize("name", CORPUS)
def test_corpus_models(name: str, corpus: Path) -> None:
    assert_streams(read_file(corpus / "models" / f"{name}.tflite"), CORPUS[name])


def test_push(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``NAME_push`` of the header, over the caller's arena and state."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    streaming = stream(builtin()["tcn_int8"]())
    project = emit(make_plan(streaming.graph), "tcn")
    assert f"#define TCN_STREAM_STEPS {streaming.steps}" in project.files["tcn.h"]
    own = "int push(void *a, void *s, void *x, void *y);\nint push(void *a, void *s, void *x, void *y) "
    code = {**project.code, "tcn.c": f"{project.code['tcn.c']}\n{own}{{ return tcn_push(a, s, x, y); }}\n"}
    library = ctypes.CDLL(str(build([replace(project, code=code)], find_compiler(), ("-shared", "-fPIC", "-O0"))))
    sizes = (project.plan.arena_bytes, project.plan.state_bytes)
    kept = [np.zeros(size + 64, np.uint8) for size in sizes]
    blocks = [ctypes.c_void_p(each.ctypes.data + -each.ctypes.data % 64) for each in kept]
    library.tcn_reset(blocks[1])
    rows: Any = np.random.default_rng(3).integers(-128, 128, (80, 40)).astype(np.int8)
    out, pushed = np.zeros(8, np.int8), list[bytes]()
    for row in rows:
        assert library.push(*blocks, ctypes.c_void_p(row.ctypes.data), ctypes.c_void_p(out.ctypes.data)) == 0
        pushed.append(out.tobytes())
    model = Interpreter.from_graph(streaming.graph)
    model.allocate_tensors()
    assert pushed[streaming.steps - 1 :] == [outputs[0].tobytes() for outputs in model.stream([rows])]


@pytest.mark.parametrize("op", ["CONV_2D", "DEPTHWISE_CONV_2D"])
def test_quantised_in_the_run_needs_all_rows(op: str) -> None:
    """A float layer with int8 weights quantises its input by the range of all rows."""
    b = Builder("hybrid")
    x = b.input("x", "FLOAT32", (1, 12, 1, 3))
    count = 2 if op == "CONV_2D" else 1
    w = b.constant(np.ones((count, 3, 1, 3), np.int8), scale=0.1)
    options = {"padding": "VALID", "stride_h": 1, "stride_w": 1, "fused_activation_function": "NONE"}
    graph = b.graph([b.op(op, [x, w, np.zeros(2 if op == "CONV_2D" else 3, np.float32)], **options)])
    streaming = stream(graph)
    assert list(streaming.whole.values()) == ["its input is quantised in every run, by the range of all rows"]
    assert prove(graph, streaming).different == 0


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_proof_looks_at_every_output(wrong: int) -> None:
    def graph(ops: list[str]) -> Graph:
        b = Builder("two")
        x = b.input("x", "FLOAT32", (1, 8, 3))
        return b.graph([b.op(op, [x]) for op in ops])

    own, other = graph(["RELU", "ABS"]), graph(["EXP" if i == wrong else op for i, op in enumerate(["RELU", "ABS"])])
    assert prove(own, stream(own)).different == 0
    proof = prove(other, stream(own))
    assert proof.different == proof.windows > 8


@pytest.mark.parametrize("peer", ["tflm", "litert-ref"])
def test_other_runtimes_run_it(peer: str) -> None:
    """Streaming models are plain TFLite files: LiteRT and TFLM, too, give the bits of the window model."""
    graph = builtin()["tcn_int8"]()
    streaming = stream(graph)
    step, window = open_peer(peer, write(streaming.graph), 1), open_peer(peer, write(graph), 1)
    rows = np.random.default_rng(5).integers(-128, 128, (streaming.steps + 6, 40)).astype(np.int8)
    for i, row in enumerate(rows, 1):
        got = np.asarray(step([row.reshape(streaming.graph.inputs[0].shape)])[0])
        if i >= streaming.steps:
            want = window([rows[i - streaming.rows : i].reshape(graph.inputs[0].shape)])[0]
            assert got.tobytes() == np.asarray(want).tobytes()


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "streaming.tflite"
    assert main(["stream", "tcn_int8", "-o", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "64 rows a window, 1 new in a step" in shown
    assert "its one window has all rows" in shown
    assert "same bits" in shown
    assert read(out.read_bytes()).metadata[METADATA]
    assert main(["stream", "tcn_int8", "-o", str(out), "--hop", "4"]) == 0
    assert "4 new in a step" in capsys.readouterr().out
    assert main(["stream", "tcn_int8", "-o", str(out), "--axis", "2"]) == 2
    assert "no rows along axis 2" in capsys.readouterr().err


def test_a_step_that_gains_nothing_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "stream.tflite")
    assert main(["stream", "kws_int8", "-o", out, "--hop", "3"]) == 0
    assert "a step costs as much as a window; --hop must be a multiple of 2" in capsys.readouterr().out
    b = Builder("dense")
    x = b.input("x", "FLOAT32", (1, 6))
    b.graph([b.op("FULLY_CONNECTED", [x, np.ones((2, 6), np.float32), None])]).save(tmp_path / "dense.tflite")
    assert main(["stream", str(tmp_path / "dense.tflite"), "-o", out]) == 0
    assert "a step costs as much as a window\n" in capsys.readouterr().out
    assert main(["stream", "kws_int8", "-o", out]) == 0
    assert "gained" not in capsys.readouterr().out


def test_a_stream_is_refused() -> None:
    streaming = stream(builtin()["tcn_int8"]())
    with pytest.raises(InvalidArgumentError, match="twinfer stream has written it"):
        stream(streaming.graph)
    with pytest.raises(InvalidArgumentError, match=r"VAR_HANDLE .*belongs to a state"):
        stream(replace(streaming.graph, metadata={}))


def test_several_signatures_are_refused() -> None:
    """Their subgraphs are no control flow."""
    graph = builtin()["tcn_int8"]()
    ends = {t.name: t for t in graph.inputs}, {t.name: t for t in graph.outputs}
    two = (Signature("one", *ends), Signature("two", *ends, 1))
    both = replace(graph, subgraphs=(replace(graph, signatures=()),), signatures=two)
    with pytest.raises(InvalidArgumentError, match=r"several signatures \(one, two\): name one, as FILE#KEY"):
        stream(both)
    with pytest.raises(InvalidArgumentError, match="control flow"):
        stream(replace(both, signatures=two[:1]))
