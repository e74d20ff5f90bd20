"""Finds the importers: every module in ``converter/onnx/ops`` ends with ``IMPORTERS``, ONNX operator to function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from twinfer.converter.discovery import importers_in
from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.onnx import ops
from twinfer.converter.onnx.node import OnnxNode
from twinfer.runtime.graph import Tensor

#: Emits the operators for one ONNX node and returns its outputs; absent ones are None.
Importer = Callable[[Emitter, OnnxNode], Tensor | Sequence[Tensor | None]]

#: What would help where an operator has no importer; the others get ``NO_IMPORTER``.
HINTS = {
    "DynamicQuantizeLinear": "its scales are known at run time only: convert the float model and quantise it",
    "DynamicQuantizeLSTM": "convert the float model and quantise it",
    "Erf": "TFLite has it within GELU only: 0.5 * x * (1 + erf(x / sqrt(2)))",
    "If": "export the model with the branch that is taken",
    "Loop": "export the model with the loop unrolled",
    "Scan": "export the model with the loop unrolled",
    "NonZero": "shapes that depend on values are not known ahead: leave it to the program that runs the model",
    "NonMaxSuppression": "end the model before it and leave it to the program that runs the model",
}
NO_IMPORTER = "there is no form of it in TFLite's operators here; export the model without it"


@cache
def importers() -> Mapping[str, Importer]:
    """All importers by operator; those outside ONNX's own domain are called ``domain:operator``."""
    return importers_in(ops)
