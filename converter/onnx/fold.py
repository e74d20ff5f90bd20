"""Computes ahead what depends on constants alone: the arithmetic on shapes that exporters write."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from twinfer.converter.emit.budget import Budget
from twinfer.converter.emit.emitter import constant
from twinfer.converter.onnx.shapes import inferred
from twinfer.runtime.graph import Tensor

#: Not computed ahead: random results, control flow, and what keeps its integers and scales.
NOT_FOLDED = frozenset(
    {
        "Bernoulli", "DequantizeLinear", "If", "Loop", "Multinomial", "RandomNormal", "RandomNormalLike",
        "RandomUniform", "RandomUniformLike", "Scan",
    }
)  # fmt: skip


def folded(
    proto: onnx.NodeProto, inputs: Sequence[Tensor | None], opsets: Mapping[str, int], budget: Budget
) -> list[Tensor | None] | None:
    """The node's outputs as constants, by ONNX's reference implementation; None if it is for a run to make them.

    UnsupportedOperatorError if they are more than the budget has.
    """
    if proto.op_type in NOT_FOLDED or proto.domain not in ("", "ai.onnx"):
        return None
    given: dict[str, Tensor] = {}
    for name, tensor in zip(proto.input, inputs, strict=True):
        if name and (tensor is None or tensor.data is None or tensor.quant is not None):
            return None
        if tensor is not None:
            given[name] = tensor
    budget.take(_growth(proto, given, opsets), "its result, which is constant,")
    try:
        with np.errstate(all="ignore"):
            feeds = {name: tensor.data for name, tensor in given.items()}
            results = ReferenceEvaluator(proto, opsets=dict(opsets)).run(None, feeds)
    except Exception:  # it lacks the operator, this form of it or a package; or the importer will say what is wrong
        return None
    named = zip(proto.output, results, strict=False)
    return [None if value is None else constant(np.asarray(value), name) for name, value in named]


def _growth(proto: onnx.NodeProto, given: Mapping[str, Tensor], opsets: Mapping[str, int]) -> int:
    """Bytes of the results beyond those of inputs and attributes, as far as ONNX's shape inference tells ahead."""
    before = proto.ByteSize() + sum(tensor.nbytes for tensor in given.values())
    return sum(_bytes(value.type.tensor_type) for value in inferred(proto, given, opsets).values()) - before


def _bytes(kind: onnx.TypeProto.Tensor) -> int:
    """Of one result; an extent that is not known counts as one element."""
    extents = [dim.dim_value if dim.HasField("dim_value") else 1 for dim in kind.shape.dim]
    size: int = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type or onnx.TensorProto.FLOAT)).itemsize
    return size * math.prod(extents)
