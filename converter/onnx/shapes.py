"""Types and shapes that an ONNX model states."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from twinfer.converter.onnx.node import Shape
from twinfer.converter.onnx.ops.layout import tensor_type
from twinfer.runtime.errors import InvalidArgumentError, UnsupportedOperatorError
from twinfer.runtime.graph import Tensor
from twinfer.runtime.shapes import EXTENT_LIMIT, shape_of


def type_of(value: onnx.ValueInfoProto) -> str:
    """TFLite's name of the element type; UnsupportedOperatorError if it has none."""
    if value.type.WhichOneof("value") != "tensor_type":
        raise UnsupportedOperatorError("sequences, maps and optional values; give tensors")
    return tensor_type(value.type.tensor_type.elem_type)


def static_shape(value: onnx.ValueInfoProto, given: Sequence[int] | None) -> Shape:
    """The input's shape; InvalidArgumentError if neither the model nor ``given`` states it, or if they disagree."""
    dims = value.type.tensor_type.shape.dim if value.type.tensor_type.HasField("shape") else None
    stated = None if dims is None else [d.dim_value if _is_known(d) else None for d in dims]
    if given is None:
        if stated is None or None in stated:
            raise InvalidArgumentError(_open(value.name, dims))
        return tuple(int(d or 0) for d in stated)
    shape = shape_of(given)
    known = [None] * len(shape) if stated is None else stated
    pairs = zip(known, shape, strict=False)
    if len(known) != len(shape) or not all(g == s or (s is None and 0 < g < EXTENT_LIMIT) for s, g in pairs):
        said = "nothing of it" if stated is None else f"[{', '.join('?' if s is None else str(s) for s in stated)}]"
        raise InvalidArgumentError(
            f"input {value.name!r} cannot have the shape {list(shape)}: the model says {said}; "
            "open dimensions (?) must be at least 1 and below 2^31"
        )
    return shape


def _is_known(dim: onnx.TensorShapeProto.Dimension) -> bool:
    """Whether an extent is stated: some exporters write -1 for one that is open."""
    return dim.HasField("dim_value") and dim.dim_value >= 0


def _open(name: str, dims: Sequence[onnx.TensorShapeProto.Dimension] | None) -> str:
    if dims is None:
        return f"input {name!r} has no shape in the model; say it: --shape {name}=1,3,32,32"
    shown = [d.dim_value if _is_known(d) else d.dim_param or "?" for d in dims]
    example = ",".join(str(d) if isinstance(d, int) else "1" for d in shown)
    return f"input {name!r} {shown} has open dimensions; say them: --shape {name}={example}"


def stated(proto: onnx.ModelProto) -> dict[str, Tensor]:
    """By name, the values whose type and whole shape the model states."""
    tensors = (_known(value) for value in (*proto.graph.value_info, *proto.graph.output))
    return {tensor.name: tensor for tensor in tensors if tensor is not None}


def _known(value: onnx.ValueInfoProto) -> Tensor | None:
    try:
        return Tensor(value.name, type_of(value), static_shape(value, None))
    except (InvalidArgumentError, UnsupportedOperatorError):
        return None
