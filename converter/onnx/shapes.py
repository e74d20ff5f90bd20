"""Types and shapes that an ONNX model states, and those that ONNX infers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from twinfer.converter.onnx.node import Shape
from twinfer.converter.onnx.ops.layout import tensor_type
from twinfer.runtime.errors import InvalidArgumentError, UnsupportedOperatorError
from twinfer.runtime.graph import Tensor

#: Elements of an input whose values shape inference is told: shapes, pads, a range's ends.
FEW = 1024


def type_of(value: onnx.ValueInfoProto) -> str:
    """TFLite's name of the element type; UnsupportedOperatorError if it has none."""
    if value.type.WhichOneof("value") != "tensor_type":
        raise UnsupportedOperatorError("sequences, maps and optional values; give tensors")
    return tensor_type(value.type.tensor_type.elem_type)


def static_shape(value: onnx.ValueInfoProto, given: Sequence[int] | None) -> Shape:
    """The input's shape; InvalidArgumentError if the model leaves it open and nobody says it, or both disagree."""
    dims = value.type.tensor_type.shape.dim if value.type.tensor_type.HasField("shape") else None
    stated = None if dims is None else [d.dim_value if _is_known(d) else None for d in dims]
    if given is None:
        if stated is None or None in stated:
            raise InvalidArgumentError(_open(value.name, dims))
        return tuple(int(d or 0) for d in stated)
    known = [None] * len(given) if stated is None else stated
    if len(known) != len(given) or not all(g == s or (s is None and g > 0) for s, g in zip(known, given, strict=True)):
        raise InvalidArgumentError(
            f"input {value.name!r} cannot have the shape {list(given)}: the model says {stated}, None is open"
        )
    return tuple(int(d) for d in given)


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
    tensors = (known(value) for value in (*proto.graph.value_info, *proto.graph.output))
    return {tensor.name: tensor for tensor in tensors if tensor is not None}


def inferred(
    proto: onnx.NodeProto, inputs: Mapping[str, Tensor], opsets: Mapping[str, int]
) -> dict[str, onnx.ValueInfoProto]:
    """By name, what ONNX's shape inference says of a node's outputs for these inputs: as much as it knows.

    Node by node: over whole models it computes values, too, whatever memory they take.
    """
    try:
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        schema = onnx.defs.get_schema(proto.op_type, opsets[domain], domain)
        types = {name: _type(tensor) for name, tensor in inputs.items()}
        few = {
            name: onnx.numpy_helper.from_array(tensor.data)
            for name, tensor in inputs.items()
            if tensor.data is not None and tensor.size <= FEW
        }
        ids = [onnx.helper.make_opsetid(*opset) for opset in opsets.items()]
        outputs = onnx.shape_inference.infer_node_outputs(schema, proto, types, few, opset_imports=ids)
    except Exception:  # whatever the checker, the inference and protobuf say of a node that does not hold
        return {}
    return {name: onnx.ValueInfoProto(name=name, type=kind) for name, kind in outputs.items()}


def _type(tensor: Tensor) -> onnx.TypeProto:
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(tensor.dtype), tensor.shape)


def known(value: onnx.ValueInfoProto | None) -> Tensor | None:
    """The value as a tensor if its type and whole shape are known, and TFLite has the type."""
    try:
        return None if value is None else Tensor(value.name, type_of(value), static_shape(value, None))
    except (InvalidArgumentError, UnsupportedOperatorError):
        return None
