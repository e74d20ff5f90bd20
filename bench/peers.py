"""The public runtimes beside ours: tflite-micro (TFLM) and LiteRT, one function each, absent ones reported as such."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from twinfer.runtime.errors import ToolError
from twinfer.runtime.op import Array

#: Peer -> the module that it needs.
MODULES = {"litert": "ai_edge_litert", "litert-ref": "ai_edge_litert", "tflm": "tflite_micro"}

Runner = Callable[[Sequence[Array]], list[Array]]


def installed(peer: str) -> bool:
    return importlib.util.find_spec(MODULES[peer]) is not None


def open_peer(peer: str, model: bytes, outputs: int) -> Runner:
    """A function from inputs to the model's ``outputs`` outputs; ToolError if the peer is missing or refuses the model.

    ``peer``: "tflm", "litert" (as users get it, XNNPACK and all) or "litert-ref" (its reference kernels).
    """
    if not installed(peer):
        raise ToolError(f"{peer} is not installed: pip install 'twinfer[peers]'")
    try:
        return _open_tflm(model, outputs) if peer == "tflm" else _open_litert(model, reference=peer == "litert-ref")
    except (RuntimeError, ValueError) as error:
        raise ToolError(f"{peer} refuses this model: {error}") from error


def _open_tflm(model: bytes, outputs: int) -> Runner:
    from tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(bytes(model), arena_size=max(1 << 20, 8 * len(model)))

    def run(inputs: Sequence[Array]) -> list[Array]:
        for i, value in enumerate(inputs):
            interpreter.set_input(np.asarray(value, order="C"), i)
        interpreter.invoke()
        return [np.array(interpreter.get_output(i)) for i in range(outputs)]

    return run


def _open_litert(model: bytes, *, reference: bool) -> Runner:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kind = OpResolverType.BUILTIN_REF if reference else OpResolverType.AUTO
    interpreter: Any = Interpreter(model_content=bytes(model), experimental_op_resolver_type=kind, num_threads=1)
    interpreter.allocate_tensors()
    inputs_at = [d["index"] for d in interpreter.get_input_details()]
    outputs_at = [d["index"] for d in interpreter.get_output_details()]

    def run(inputs: Sequence[Array]) -> list[Array]:
        for index, value in zip(inputs_at, inputs, strict=True):
            interpreter.set_tensor(index, value)
        interpreter.invoke()
        return [interpreter.get_tensor(index) for index in outputs_at]

    return run
