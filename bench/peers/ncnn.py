"""ncnn on one thread, in float32: pnnx makes its files from the model as ONNX."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from twinfer.bench.models.onnx_graph import onnx_graph
from twinfer.bench.models.qdq import outer
from twinfer.bench.peers.engines import Peer, Stateless, silence
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Array
from twinfer.runtime.read.tflite import read
from twinfer.runtime.tools import run_tool


class Ncnn(Stateless):
    """Its images have no batch."""

    def __init__(self, model: bytes, outputs: int) -> None:
        import ncnn

        graph = read(model)
        ends = [*graph.inputs, *graph.outputs]
        if any(end.type != "FLOAT32" or not end.shape or end.shape[0] != 1 for end in ends):
            raise RuntimeError("it takes float32 models of one batch alone")
        pnnx = find_spec("pnnx")
        if pnnx is None or pnnx.origin is None:
            raise ToolError("ncnn's peer needs pnnx, too: pip install 'twinfer[ncnn]'")
        self._net: Any = ncnn.Net()
        options = self._net.opt
        options.num_threads = 1
        options.use_fp16_packed = options.use_fp16_storage = options.use_fp16_arithmetic = False
        options.use_bf16_storage = False
        with tempfile.TemporaryDirectory(prefix="twinfer-") as folder, silence():
            (Path(folder) / "model.onnx").write_bytes(onnx_graph(graph))
            run_tool([str(Path(pnnx.origin).parent / "pnnx"), "model.onnx", "fp16=0"], Path(folder))
            files = self._net.load_param(f"{folder}/model.ncnn.param"), self._net.load_model(f"{folder}/model.ncnn.bin")
        if any(files):
            raise RuntimeError("it lacks a layer that pnnx writes for this model")
        self._new, self._shapes = ncnn.Mat, [tensor.shape for tensor in graph.outputs]
        self._inputs: list[Any] = []
        self._results: list[Any] = []

    def feed(self, inputs: Sequence[Array]) -> None:
        self._inputs = [self._new(np.ascontiguousarray(value.reshape(outer(value.shape))[0])) for value in inputs]

    def invoke(self) -> None:
        extractor = self._net.create_extractor()
        for i, value in enumerate(self._inputs):
            extractor.input(f"in{i}", value)
        self._results = [extractor.extract(f"out{i}")[1] for i in range(len(self._shapes))]

    def outputs(self) -> list[Array]:
        return [np.array(value).reshape(shape) for value, shape in zip(self._results, self._shapes, strict=True)]


PEER = Peer(name="ncnn", label="ncnn", heading="ncnn", module="ncnn", package="ncnn", open=Ncnn, aborts=True)
