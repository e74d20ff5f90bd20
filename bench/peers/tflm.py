"""tflite-micro (TFLM): its Python interpreter, with its reference kernels in an arena of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinfer.bench.peers.engines import Peer, PeerModel
from twinfer.runtime.graph import Array


class Tflm(PeerModel):
    def __init__(self, model: bytes, outputs: int) -> None:
        from tflite_micro import runtime

        self._count = outputs
        self._interpreter = runtime.Interpreter.from_bytes(bytes(model), arena_size=max(1 << 20, 8 * len(model)))
        self.invoke = self._interpreter.invoke

    def feed(self, inputs: Sequence[Array]) -> None:
        for i, value in enumerate(inputs):
            self._interpreter.set_input(np.asarray(value, order="C"), i)

    def outputs(self) -> list[Array]:
        return [np.array(self._interpreter.get_output(i)) for i in range(self._count)]

    def reset(self) -> None:
        self._interpreter.reset()


PEER = Peer(
    name="tflm",
    label="tflite-micro",
    heading="TFLM",
    module="tflite_micro",
    package="tflite-micro",
    open=Tflm,
    aborts=True,
    benched=True,
    trust=1,  # its bits are ours
)
