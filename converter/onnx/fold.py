"""Computes ahead what depends on constants alone: the arithmetic on shapes that exporters write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from twinfer.converter.emit.emitter import constant
from twinfer.runtime.graph import Tensor

#: Not computed ahead: random results, control flow, and what keeps its integers and scales.
NOT_FOLDED = frozenset(
    {
        "Bernoulli", "DequantizeLinear", "If", "Loop", "Multinomial", "RandomNormal", "RandomNormalLike",
        "RandomUniform", "RandomUniformLike", "Scan",
    }
)  # fmt: skip


def folded(
    proto: onnx.NodeProto, inputs: Sequence[Tensor | None], opsets: Mapping[str, int]
) -> list[Tensor | None] | None:
    """The node's outputs as constants, by ONNX's reference implementation; None if it is for a run to make them."""
    if proto.op_type in NOT_FOLDED or proto.domain not in ("", "ai.onnx"):
        return None
    feeds = {}
    for name, tensor in zip(proto.input, inputs, strict=True):
        if name and (tensor is None or tensor.data is None or tensor.quant is not None):
            return None
        if tensor is not None:
            feeds[name] = tensor.data
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(proto, opsets=dict(opsets)).run(None, feeds)
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError):
        return None  # the reference implementation lacks the operator or this form of it, or the importer will say why
    named = zip(proto.output, results, strict=False)
    return [None if value is None else constant(np.asarray(value), name) for name, value in named]
