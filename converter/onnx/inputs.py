"""Types and shapes of a model's inputs: what it states, what the user says, and a batch that is left open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from twinfer.converter.freeze import fixed
from twinfer.converter.onnx.node import Shape
from twinfer.converter.onnx.ops.move import BITS, tensor_type
from twinfer.converter.open_shapes import Dims, OpenShapes
from twinfer.runtime.errors import InvalidArgumentError, UnsupportedOperatorError
from twinfer.runtime.graph import Tensor
from twinfer.runtime.shapes import EXTENT_LIMIT, shape_of

#: A shape of which some extents are open: these are the dimension's name, or "?".
Stated = list[int | str]


def type_of(value: onnx.ValueInfoProto) -> str:
    """TFLite's name of the element type, INT8 for narrower ones; UnsupportedOperatorError if it has none."""
    if value.type.WhichOneof("value") != "tensor_type":
        raise UnsupportedOperatorError("sequences, maps and optional values; give tensors")
    return "INT8" if narrow_of(value) else tensor_type(value.type.tensor_type.elem_type)


def narrow_of(value: onnx.ValueInfoProto) -> str | None:
    """The element type if it is of 4 or 2 bits."""
    code = value.type.tensor_type.elem_type
    name = onnx.TensorProto.DataType.Name(code).lower() if code in onnx.TensorProto.DataType.values() else ""
    return name if name in BITS else None


def stated_shape(value: onnx.ValueInfoProto) -> Stated | None:
    """What the model says of the shape; None if that is nothing. Some exporters write -1 for an extent that is open, or
    0 for the batch."""
    if not value.type.tensor_type.HasField("shape"):
        return None
    dims = value.type.tensor_type.shape.dim
    stated: Stated = [d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param or "?" for d in dims]
    if len(stated) > 1 and stated[0] == 0 and 0 not in stated[1:]:
        stated[0] = "?"
    return stated


def static_shapes(values: Mapping[str, onnx.ValueInfoProto], given: Mapping[str, Sequence[int]]) -> dict[str, Shape]:
    """The shape of every input. What ``given`` says of a named dimension counts wherever the name stands; a batch that
    is open still is 1: the first dimension of inputs that have others.

    OpenShapes if there are other open ones, InvalidArgumentError if ``given`` and the model disagree.
    """
    stated = {name: stated_shape(value) for name, value in values.items()}
    named = dict[str, int]()
    for name, shape in given.items():
        named |= _bound(name, stated[name], shape_of(shape))
    inner = {d for s in stated.values() if s is not None for d in s[1:]}
    rest = {name: s for name, s in stated.items() if name not in given}
    for s in rest.values():
        if s is not None and len(s) > 1 and isinstance(s[0], str) and s[0] not in (*inner, "?"):
            named.setdefault(s[0], 1)
    known, still = {name: shape_of(shape) for name, shape in given.items()}, dict[str, Dims]()
    for name, s in rest.items():
        if s is None:
            still[name] = None
            continue
        closed = [1 if d == "?" and not i and len(s) > 1 else named.get(str(d), d) for i, d in enumerate(s)]
        numbers = tuple(d for d in closed if isinstance(d, int))
        if len(numbers) < len(s):
            still[name] = closed
        else:
            known[name] = numbers
    if still:
        raise OpenShapes(still)
    return known


def _bound(name: str, stated: Stated | None, shape: Shape) -> dict[str, int]:
    """Extents of named dimensions; InvalidArgumentError if an input cannot have the shape."""
    known: Stated = ["?"] * len(shape) if stated is None else stated
    pairs = list(zip(known, shape, strict=False))
    if len(known) != len(shape) or not all(g == s or (isinstance(s, str) and 0 < g < EXTENT_LIMIT) for s, g in pairs):
        shown = ["?" if isinstance(d, str) else d for d in known]
        said = "nothing of it" if stated is None else f"[{', '.join(map(str, shown))}]"
        raise InvalidArgumentError(
            f"input {name!r} cannot have the shape {list(shape)}: the model says {said}; "
            "open dimensions (?) must be at least 1 and below 2^31"
        )
    return {s: g for s, g in pairs if isinstance(s, str) and s != "?"}


def fixed_input(value: onnx.ValueInfoProto, shape: Sequence[int] | None, given: Any) -> Tensor:
    """The input as a constant, which decides dimensions that are open."""
    stated = stated_shape(value)
    if stated is None:
        stated = ["?"] * len(np.shape(given))
    signature = tuple(-1 if isinstance(d, str) else d for d in (stated if shape is None else shape_of(shape)))
    extents = tuple(abs(d) for d in signature)
    tensor = fixed(Tensor(value.name, type_of(value), extents, shape_signature=signature), given)
    fits = all(d in (-1, n) for d, n in zip(signature, tensor.shape, strict=False))
    if len(tensor.shape) != len(extents) or not fits:
        raise InvalidArgumentError(f"input {value.name!r} {list(signature)} cannot be a constant {list(tensor.shape)}")
    return tensor
