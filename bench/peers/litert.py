"""LiteRT on one thread: with its defaults (XNNPACK), and with its reference kernels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from twinfer.bench.peers.engines import Peer, PeerModel, silence
from twinfer.runtime.graph import Array


class Litert(PeerModel):
    """LiteRT's interpreter with the kernels of ``resolver``, a name of its OpResolverType."""

    def __init__(self, model: bytes, outputs: int, resolver: str = "AUTO") -> None:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        kind = OpResolverType[resolver]
        with silence():
            interpreter: Any = Interpreter(model_content=model, experimental_op_resolver_type=kind, num_threads=1)
            interpreter.allocate_tensors()
        self._interpreter = interpreter
        self._inputs = [d["index"] for d in interpreter.get_input_details()]
        self._outputs = [d["index"] for d in interpreter.get_output_details()]
        self.invoke = interpreter.invoke

    def feed(self, inputs: Sequence[Array]) -> None:
        for index, value in zip(self._inputs, inputs, strict=True):
            self._interpreter.set_tensor(index, value)

    def outputs(self) -> list[Array]:
        return [self._interpreter.get_tensor(index) for index in self._outputs]

    def reset(self) -> None:
        self._interpreter.reset_all_variables()


PEER = Peer(
    name="litert",
    label="LiteRT (XNNPACK)",
    heading="litert",
    module="ai_edge_litert",
    package="ai-edge-litert",
    open=Litert,
    aborts=True,
    benched=True,
)

REFERENCE = Peer(
    name="litert-ref",
    label="LiteRT (reference)",
    heading="LiteRT",
    module="ai_edge_litert",
    package="ai-edge-litert",
    open=partial(Litert, resolver="BUILTIN_REF"),
    trust=2,  # it legitimately differs from TFLM (FULLY_CONNECTED)
)
