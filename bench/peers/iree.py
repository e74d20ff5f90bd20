"""IREE on one thread: it compiles the model as ONNX for this machine. A call goes through its Python."""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from twinfer.bench.models.onnx_graph import onnx_graph
from twinfer.bench.peers.engines import Function, Peer
from twinfer.runtime.graph import Array
from twinfer.runtime.read.tflite import read
from twinfer.runtime.tools import run_tool

_IMPORT = [sys.executable, "-m", "iree.compiler.tools.import_onnx", "model.onnx", "-o", "model.mlir"]

#: The driver that runs all in the caller's thread.
_DRIVER = "local-sync"


class Iree(Function):
    def __init__(self, model: bytes, outputs: int) -> None:
        runtime: Any = import_module("iree.runtime")
        tools: Any = import_module("iree.compiler.tools")

        graph = read(model)
        with tempfile.TemporaryDirectory(prefix="twinfer-") as folder:
            (Path(folder) / "model.onnx").write_bytes(onnx_graph(graph))
            run_tool(_IMPORT, Path(folder))
            code = tools.compile_file(
                f"{folder}/model.mlir",
                target_backends=["llvm-cpu"],
                input_type="onnx",
                extra_args=["--iree-llvmcpu-target-cpu=host"],
            )
        module: Any = runtime.load_vm_flatbuffer(code, driver=_DRIVER)
        name = next(name for name in module.vm_module.function_names if not name.startswith("__") and "$" not in name)
        device = runtime.get_device(_DRIVER)
        super().__init__(graph, getattr(module, name), partial(runtime.asdevicearray, device))

    def host(self, result: Any) -> Array:
        return np.asarray(result.to_host())


PEER = Peer(
    name="iree", label="IREE", heading="IREE", module="iree", package="iree-base-runtime", open=Iree, aborts=True
)
