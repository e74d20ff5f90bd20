"""OpenVINO on the CPU, on one thread: it reads .tflite files itself."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twinfer.bench.peers.engines import Peer, PeerModel
from twinfer.runtime.graph import Array

#: One thread, one inference at a time, in the types of the model.
_SETTINGS = {"INFERENCE_NUM_THREADS": "1", "NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"}


class OpenVino(PeerModel):
    def __init__(self, model: bytes, outputs: int) -> None:
        import openvino

        with tempfile.TemporaryDirectory(prefix="twinfer-") as folder:
            file = Path(folder) / "model.tflite"
            file.write_bytes(model)
            compiled: Any = openvino.Core().compile_model(str(file), "CPU", _SETTINGS)
        self._request = compiled.create_infer_request()
        self._inputs = [self._request.get_input_tensor(i).data for i in range(len(compiled.inputs))]
        self._count = outputs
        self.invoke = self._request.infer

    def feed(self, inputs: Sequence[Array]) -> None:
        for memory, value in zip(self._inputs, inputs, strict=True):
            memory[...] = value

    def outputs(self) -> list[Array]:
        return [np.array(self._request.get_output_tensor(i).data) for i in range(self._count)]

    def reset(self) -> None:
        self._request.reset_state()


PEER = Peer(
    name="openvino",
    label="OpenVINO",
    heading="OpenVINO",
    module="openvino",
    package="openvino",
    open=OpenVino,
    benched=True,
)
