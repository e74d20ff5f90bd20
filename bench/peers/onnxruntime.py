"""onnxruntime on the CPU, on one thread: it takes the model as ONNX in QDQ form (bench/models/onnx_graph.py)."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from twinfer.bench.models.onnx_graph import onnx_graph
from twinfer.bench.models.qdq import STORED, other_sign
from twinfer.bench.peers.engines import Peer, Stateless
from twinfer.kernels_c import lib
from twinfer.runtime.errors import ToolError
from twinfer.runtime.graph import Array
from twinfer.runtime.read.tflite import read
from twinfer.runtime.run.isa import features


def settings() -> Any:
    """One thread, all optimisations, and sums that are right."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if not {"avx_vnni", "avx512_vnni"} & {*features(lib.tw_level())}:  # without them, sums of two products saturate
        options.add_session_config_entry("session.x64quantprecision", "1")
    options.log_severity_level = 4
    return options


def opened(model: bytes, options: Any) -> Any:
    """An InferenceSession of a .tflite file; RuntimeError or ValueError if it cannot be one."""
    import onnxruntime

    if importlib.util.find_spec("onnx") is None:
        raise ToolError("onnxruntime's peer needs onnx, too: pip install 'twinfer[onnxruntime]'")
    content = onnx_graph(read(model))
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors share no other class
        raise RuntimeError(str(error)) from error


class OnnxRuntime(Stateless):
    """Inputs and outputs are bound once, so that a call moves none of them."""

    def __init__(self, model: bytes, outputs: int) -> None:
        from onnxruntime import OrtValue

        graph, session = read(model), opened(model, settings())
        binding = session.io_binding()
        self._inputs = [np.zeros(tensor.shape, STORED[tensor.type]) for tensor in graph.inputs]
        self._outputs = [np.zeros(tensor.shape, STORED[tensor.type]) for tensor in graph.outputs]
        for end, memory in zip(session.get_inputs(), self._inputs, strict=True):
            binding.bind_ortvalue_input(end.name, OrtValue.ortvalue_from_numpy(memory.reshape(end.shape)))
        for end, memory in zip(session.get_outputs(), self._outputs, strict=True):
            binding.bind_ortvalue_output(end.name, OrtValue.ortvalue_from_numpy(memory.reshape(end.shape)))
        self.invoke = partial(session.run_with_iobinding, binding)

    def feed(self, inputs: Sequence[Array]) -> None:
        for memory, value in zip(self._inputs, inputs, strict=True):
            memory[...] = other_sign(np.asarray(value))

    def outputs(self) -> list[Array]:
        return [other_sign(memory.copy()) for memory in self._outputs]


PEER = Peer(
    name="onnxruntime",
    label="onnxruntime",
    heading="onnxruntime",
    module="onnxruntime",
    package="onnxruntime",
    open=OnnxRuntime,
    benched=True,
)
