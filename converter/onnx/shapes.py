"""Types and shapes that an ONNX model states, and those that ONNX infers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from twinfer.converter.onnx.node import Shape
from twinfer.converter.onnx.ops.layout import tensor_type
from twinfer.runtime.errors import InvalidArgumentError, UnsupportedOperatorError
from twinfer.runtime.graph import Tensor


def type_of(value: onnx.ValueInfoProto) -> str:
    """TFLite's name of the element type; UnsupportedOperatorError if it has none."""
    if value.type.WhichOneof("value") != "tensor_type":
        raise UnsupportedOperatorError("sequences, maps and optional values; give tensors")
    return tensor_type(value.type.tensor_type.elem_type)


def static_shape(value: onnx.ValueInfoProto, given: Sequence[int] | None) -> Shape:
    """The input's shape; InvalidArgumentError if the model leaves it open and nobody says it, or both disagree."""
    dims = value.type.tensor_type.shape.dim if value.type.tensor_type.HasField("shape") else None
    stated = None if dims is None else [d.dim_value if d.HasField("dim_value") else None for d in dims]
    if given is None:
        if stated is None or None in stated:
            raise InvalidArgumentError(_open(value.name, dims))
        return tuple(int(d or 0) for d in stated)
    fits = stated is None or (
        len(stated) == len(given) and all(s in (None, g) for s, g in zip(stated, given, strict=True))
    )
    if not fits or any(d < 1 for d in given):
        raise InvalidArgumentError(
            f"input {value.name!r} cannot have the shape {list(given)}: the model says {stated}, None is open"
        )
    return tuple(int(d) for d in given)


def _open(name: str, dims: Sequence[onnx.TensorShapeProto.Dimension] | None) -> str:
    if dims is None:
        return f"input {name!r} has no shape in the model; say it: --shape {name}=1,3,32,32"
    shown = [d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in dims]
    example = ",".join(str(d) if isinstance(d, int) else "1" for d in shown)
    return f"input {name!r} {shown} has open dimensions; say them: --shape {name}={example}"


def inferred(proto: onnx.ModelProto, shapes: Mapping[str, Shape]) -> dict[str, Tensor]:
    """By name, the values whose type and whole shape ONNX infers for inputs of these shapes."""
    model = onnx.ModelProto()
    model.CopyFrom(proto)
    for value in model.graph.input:
        for dim, extent in zip(value.type.tensor_type.shape.dim, shapes.get(value.name, ()), strict=False):
            dim.dim_value = extent
    try:
        graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except (onnx.shape_inference.InferenceError, ValueError):
        return {}
    tensors = (_known(value) for value in (*graph.value_info, *graph.output))
    return {tensor.name: tensor for tensor in tensors if tensor is not None}


def _known(value: onnx.ValueInfoProto) -> Tensor | None:
    try:
        return Tensor(value.name, type_of(value), static_shape(value, None))
    except (InvalidArgumentError, UnsupportedOperatorError):
        return None
