"""TVM on one thread: it compiles the model as ONNX for this machine, without tuning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from twinfer.bench.models.onnx_graph import onnx_graph
from twinfer.bench.models.qdq import other_sign, outer
from twinfer.bench.peers.engines import Peer, PeerModel
from twinfer.runtime.graph import Array
from twinfer.runtime.read.tflite import read


class Tvm(PeerModel):
    def __init__(self, model: bytes, outputs: int) -> None:
        import onnx
        import tvm
        from tvm.relax import VirtualMachine
        from tvm.relax.frontend.onnx import from_onnx
        from tvm.target import codegen

        graph = read(model)
        module = from_onnx(onnx.load_from_string(onnx_graph(graph)))
        target = tvm.target.Target({"kind": "llvm", "mcpu": codegen.llvm_get_system_cpu()})
        machine: Any = VirtualMachine(tvm.compile(module, target=target), tvm.cpu())
        self._function, self._move = machine["main"], tvm.runtime.tensor
        self._shapes = [tensor.shape for tensor in graph.outputs]
        self._inputs: list[Any] = []
        self._results: Any = ()

    def feed(self, inputs: Sequence[Array]) -> None:
        self._inputs = [self._move(other_sign(np.asarray(value)).reshape(outer(value.shape))) for value in inputs]

    def invoke(self) -> None:
        self._results = self._function(*self._inputs)

    def outputs(self) -> list[Array]:
        results = [self._results] if hasattr(self._results, "numpy") else self._results
        hosts = [other_sign(value.numpy().copy()) for value in results]
        return [value.reshape(shape) for value, shape in zip(hosts, self._shapes, strict=True)]

    def reset(self) -> None:
        """No operator that it gets keeps a state."""


PEER = Peer(name="tvm", label="TVM", heading="TVM", module="tvm", package="apache-tvm", open=Tvm, aborts=True)
