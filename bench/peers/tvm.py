"""TVM on one thread: it compiles the model as ONNX for this machine, without tuning."""

from __future__ import annotations

from typing import Any

import numpy as np

from twinfer.bench.models.onnx_graph import onnx_graph
from twinfer.bench.peers.engines import Function, Peer
from twinfer.runtime.graph import Array
from twinfer.runtime.read.tflite import read


class Tvm(Function):
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
        super().__init__(graph, machine["main"], tvm.runtime.tensor)

    def host(self, result: Any) -> Array:
        return np.asarray(result.numpy())


PEER = Peer(name="tvm", label="TVM", heading="TVM", module="tvm", package="apache-tvm", open=Tvm, aborts=True)
