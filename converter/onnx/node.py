"""One node of an ONNX graph as importers see it, and the importers: every module in ``converter/onnx/ops`` ends with
``IMPORTERS``, ONNX operator to function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.onnx import ops
from twinfer.converter.table import importers_in
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Tensor

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class OnnxNode:
    """One node. ``inputs`` are the tensors that it reads (None: absent), ``outputs`` the names that it writes ("":
    nobody reads it)."""

    op: str
    name: str
    opset: int
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.op} {self.name or self.outputs[0]!r}"

    def input(self, i: int = 0) -> Tensor:
        tensor = self.optional(i)
        if tensor is None:
            raise ModelError(f"{self}: input {i} is missing")
        return tensor

    def optional(self, i: int) -> Tensor | None:
        return self.inputs[i] if i < len(self.inputs) else None

    def constant(self, i: int) -> NDArray[Any] | None:
        """The value of input ``i``, None if it is absent; UnsupportedOperatorError if it is computed at run time."""
        tensor = self.optional(i)
        if tensor is None:
            return None
        if tensor.data is None:
            raise UnsupportedOperatorError(f"input {i} must be a constant; export the model with static shapes")
        return tensor.data

    def attribute(self, name: str, default: Any) -> Any:
        return self.attributes.get(name, default)

    def ints(self, name: str, i: int) -> Shape | None:
        """Numbers that are attribute ``name`` in old opsets and constant input ``i`` in new ones; None if absent."""
        value = self.attributes.get(name)
        if value is None:
            value = self.constant(i)
        return None if value is None else tuple(int(v) for v in np.atleast_1d(value))

    def need(self, condition: bool, reason: str) -> None:
        """UnsupportedOperatorError with the reason unless the condition holds; the reader adds operator and name."""
        if not condition:
            raise UnsupportedOperatorError(reason)

    def axis(self, default: int, name: str = "axis", i: int = 0) -> int:
        """The attribute as an axis of input ``i``, counted from the front."""
        return positive(self, int(self.attribute(name, default)), len(self.input(i).shape))


def positive(node: OnnxNode, axis: int, rank: int) -> int:
    """The axis counted from the front; ModelError if the rank has no such axis."""
    if not -rank <= axis < max(rank, 1):
        raise ModelError(f"{node}: axis {axis} is out of range, the rank is {rank}")
    return axis % rank if rank else 0


def attributes_of(proto: onnx.NodeProto) -> dict[str, Any]:
    """Attributes as Python values: numbers, str, lists, numpy arrays for tensors; graphs stay protos."""
    return {a.name: _plain(onnx.helper.get_attribute_value(a)) for a in proto.attribute}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return [_plain(v) for v in value] if isinstance(value, list) else value


#: Emits the operators for one ONNX node and returns its outputs; absent ones are None.
Importer = Callable[[Emitter, OnnxNode], Tensor | Sequence[Tensor | None]]

#: Why an operator is refused that gives as many elements as some values say.
NO_SIZE = "has no fixed size, as its values at run time decide it"

#: What would help where an operator has no importer; the others get ``NO_IMPORTER``.
HINTS = {
    "NonZero": f"its result {NO_SIZE}; multiply by a mask, use Where, or make its input a constant",
    "NonMaxSuppression": f"its result {NO_SIZE}; end the model before it, with boxes and scores as outputs, and run it "
    "in the program that runs the model",
    "Range": f"its result {NO_SIZE}; make its limits constants (convert --constant NAME=VALUE)",
    "Unique": f"its result {NO_SIZE}; leave it to the program that runs the model",
    "TfIdfVectorizer": "leave the counting of words to the program that runs the model",
    **dict.fromkeys(
        ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
        "random values, of which TFLite's operators have none that repeat: make them an input of the model",
    ),
}
FOR_ONE_CPU = (
    "its values and weights lie as one kind of CPU reads them, which the file does not say; have ONNX Runtime save the "
    "model with ORT_ENABLE_EXTENDED, not ORT_ENABLE_ALL"
)
NO_IMPORTER = "there is no form of it in TFLite's operators here; export the model without it"


def hint(proto: onnx.NodeProto) -> str:
    """Why an operator without an importer is refused, and what would help."""
    return FOR_ONE_CPU if proto.domain == "com.microsoft.nchwc" else HINTS.get(proto.op_type, NO_IMPORTER)


@cache
def importers() -> Mapping[str, Importer]:
    """All importers by operator; those outside ONNX's own domain are called ``domain:operator``."""
    return importers_in(ops)
