"""Computes ahead what depends on constants alone: the arithmetic on shapes that exporters write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from twinfer.converter.emit.budget import Budget
from twinfer.converter.emit.emitter import constant
from twinfer.converter.onnx.growth import element_bytes, elements
from twinfer.converter.onnx.node import attributes_of
from twinfer.runtime.graph import Tensor

#: Not computed ahead: random results, control flow, what keeps its integers and scales, and what the reference
#: implementation may hang in: pooling and n-grams loop in Python, GatherElements walks to an index far out of range.
NOT_FOLDED = frozenset(
    {
        "AveragePool", "Bernoulli", "DequantizeLinear", "GatherElements", "If", "Loop", "LpPool", "MaxPool",
        "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Scan",
        "TfIdfVectorizer",
    }
)  # fmt: skip


def folded(
    proto: onnx.NodeProto, inputs: Sequence[Tensor | None], opsets: Mapping[str, int], budget: Budget
) -> list[Tensor | None] | None:
    """The node's outputs as constants, by ONNX's reference implementation; None if only a run can compute them.

    UnsupportedOperatorError if they are more than the budget has.
    """
    if proto.op_type in NOT_FOLDED or proto.domain:
        return None
    given: dict[str, Tensor] = {}
    for name, tensor in zip(proto.input, inputs, strict=True):
        if name and (tensor is None or tensor.data is None or tensor.quant is not None):
            return None
        if tensor is not None:
            given[name] = tensor
    budget.take(_growth(proto, inputs), "its result, which is constant,")
    try:
        with np.errstate(all="ignore"):
            feeds = {name: tensor.data for name, tensor in given.items()}
            results = ReferenceEvaluator(proto, opsets=dict(opsets)).run(None, feeds)
    except Exception:  # it lacks the operator, this form of it or a package; or the importer will say what is wrong
        return None
    named = zip(proto.output, results, strict=False)
    return [None if value is None else constant(np.asarray(value), name) for name, value in named]


def _growth(proto: onnx.NodeProto, inputs: Sequence[Tensor | None]) -> int:
    """Bytes of the results beyond those of inputs and attributes. 0 for a damaged node; its error comes later."""
    given = [np.empty(0, np.int8) if tensor is None else np.asarray(tensor.data) for tensor in inputs]
    try:
        asked = proto.op_type, given, attributes_of(proto)
        size = elements(*asked) * element_bytes(*asked)
    except Exception:  # attributes of the wrong type, inputs that are missing, infinite scales, …
        return 0
    return size - int(proto.ByteSize()) - sum(value.nbytes for value in given)
