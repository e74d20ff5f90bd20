"""A peer is one file: verify, bench and the command line find a file that is put into bench/peers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny
from needs import ROOT, needs

from twinfer.bench.models.source import load
from twinfer.bench.peers.engines import benched, find, isolate, open_peer, peers, trusted
from twinfer.runtime.errors import InvalidArgumentError, ToolError
from twinfer.runtime.run.inputs import random_inputs
from twinfer.runtime.run.interpreter import Interpreter

#: A pretended runtime: twinfer's interpreter with the bits of WRONG flipped.
ECHO = """
from twinfer import Interpreter
from twinfer.bench.peers.engines import Peer, PeerModel


class Echo(PeerModel):
    def __init__(self, model, outputs):
        self._interpreter = Interpreter(model_content=model)
        self._interpreter.allocate_tensors()
        self.invoke = self._interpreter.invoke

    def feed(self, inputs):
        self._interpreter.session.feed(inputs)

    def outputs(self):
        return [value ^ WRONG for value in self._interpreter.session.outputs()]

    def reset(self):
        self._interpreter.reset_all_variables()


PEER = Peer("echo", "Echo Runtime", "Echo", "twinfer", "echo", Echo, aborts=True, benched=True, trust=0)
"""


def with_peer(folder: Path, source: str) -> Path:
    """A copy of twinfer with one more file in bench/peers."""
    links = {"twinfer": ROOT / "twinfer", "twinfer/bench": ROOT / "bench", "twinfer/bench/peers": ROOT / "bench/peers"}
    for name, original in links.items():
        (folder / name).mkdir()
        for path in original.iterdir():
            if f"{name}/{path.name}" not in links and path.name != "__pycache__":
                (folder / name / path.name).symlink_to(path.resolve())
    (folder / "twinfer/bench/peers/echo.py").write_text(source)
    return folder


def said(folder: Path, *command: str, status: int = 0) -> str:
    """What twinfer in ``folder`` prints."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "XDG_CACHE_HOME": str(ROOT / "build" / "cache")}
    words = [sys.executable, "-m", "twinfer", *command]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_file_more_is_a_peer_more(tmp_path: Path) -> None:
    folder = with_peer(tmp_path, ECHO.replace("WRONG", "0"))
    tiny.dense().graph.save(folder / "dense.tflite")
    proof = said(folder, "verify", "dense.tflite", "--against", "echo")
    assert "Echo" in proof
    assert "proven on one sample" in proof
    path = tmp_path / "rows.json"
    table = said(folder, "bench", "dense.tflite", "--against", "echo", "--runs", "1", "--json", str(path))
    assert "Echo Runtime" in table
    (row,) = (row for row in json.loads(path.read_text())["rows"] if row["engine"] == "echo")
    assert row["same_bits"] is True


def test_the_most_trusted_peer_is_believed(tmp_path: Path) -> None:
    folder = with_peer(tmp_path, ECHO.replace("WRONG", "1"))
    tiny.dense().graph.save(folder / "dense.tflite")
    assert "Echo Runtime differs first" in said(folder, "verify", "dense.tflite", "--against", "echo", status=1)


def test_the_peers_that_come_along() -> None:
    names = ["executorch", "iree", "litert", "litert-ref", "mnn", "ncnn", "onnxruntime", "openvino", "tflm", "tvm"]
    assert list(peers()) == names
    assert benched() == ["litert", "onnxruntime", "openvino", "tflm"]
    assert trusted() == ["tflm", "litert-ref"]
    assert [peer.aborts for peer in peers().values()] == [True, True, True, False, True, True, False, False, True, True]
    with pytest.raises(InvalidArgumentError, match=f"there are: {', '.join(names)}"):
        find("nobody")


@pytest.mark.parametrize(
    ("peer", "packages", "model"),
    [
        ("ncnn", ("ncnn", "pnnx"), "digits_float32"),
        ("mnn", ("MNN",), "digits_float32"),
        ("executorch", ("executorch",), "digits_float32"),
        ("iree", ("iree.compiler", "iree.runtime"), "digits_int8"),
        ("tvm", ("tvm",), "digits_int8"),
    ],
)
def test_a_compiler_or_a_phones_runtime_computes_the_same(peer: str, packages: tuple[str, ...], model: str) -> None:
    """Within a rounding, so that its times are those of the model."""
    needs(*packages)
    source = load(model)
    graph = source.graph
    inputs = random_inputs(graph)
    ((answer,),) = isolate(peer, source.content, [inputs], 1)
    ours = Interpreter.from_graph(graph).run(inputs[0], integers=True)
    assert (answer.dtype, answer.shape) == (ours.dtype, ours.shape)
    assert np.abs(answer.astype(np.float64) - ours.astype(np.float64)).max() <= (1e-5 if model.endswith("32") else 1)


def test_a_peer_of_floats_refuses_integers() -> None:
    source = load("digits_int8")
    for peer in ("ncnn", "mnn", "executorch"):
        needs(find(peer).module)
        with pytest.raises(ToolError, match=f"{peer} refuses this model: it takes"):
            open_peer(peer, source.content, 1)
