"""MNN on one thread, in float32: it reads .tflite files itself. Its Python has no tensors of int8."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from twinfer.bench.peers.engines import Peer, Stateless, silence
from twinfer.runtime.graph import Array
from twinfer.runtime.read.tflite import read
from twinfer.runtime.tools import run_tool

#: Half precision is its default elsewhere.
_SETTINGS = {"backend": "CPU", "numThread": 1, "precision": "high"}

#: Not by its mnnconvert, which installs a package to report every use to its makers.
_CONVERT = "import sys, MNN, _tools; _tools.mnnconvert(['mnnconvert', *sys.argv[1:]])"


class Mnn(Stateless):
    def __init__(self, model: bytes, outputs: int) -> None:
        with silence():
            import MNN

        graph = read(model)
        if any(end.type != "FLOAT32" for end in (*graph.inputs, *graph.outputs)):
            raise RuntimeError("it takes models with float32 inputs and outputs alone")
        with tempfile.TemporaryDirectory(prefix="twinfer-") as folder:
            source, made = Path(folder) / "model.tflite", Path(folder) / "model.mnn"
            source.write_bytes(model)
            words = ["-f", "TFLITE", "--modelFile", str(source), "--MNNModel", str(made), "--bizCode", "twinfer"]
            run_tool([sys.executable, "-c", _CONVERT, *words])
            self._net: Any = MNN.Interpreter(str(made))
            with silence():
                session = self._net.createSession(_SETTINGS)
        every, results = self._net.getSessionInputAll(session), self._net.getSessionOutputAll(session)
        self._inputs = [every[tensor.name] for tensor in graph.inputs]
        self._results = [(results[tensor.name], tensor.shape) for tensor in graph.outputs]
        self._new = MNN.Tensor
        self.invoke = partial(self._net.runSession, session)

    def feed(self, inputs: Sequence[Array]) -> None:
        for tensor, value in zip(self._inputs, inputs, strict=True):
            whole = np.ascontiguousarray(value)
            tensor.copyFrom(self._new(whole.shape, tensor.getDataType(), whole, tensor.getDimensionType()))

    def outputs(self) -> list[Array]:
        return [np.array(tensor.getNumpyData()).reshape(shape) for tensor, shape in self._results]


PEER = Peer(name="mnn", label="MNN", heading="MNN", module="MNN", package="MNN", open=Mnn, aborts=True)
