"""Computes ahead what depends on constants alone: the arithmetic on shapes that exporters write.

Before, it finds the size of a node's results, for operators that make much of small inputs. ONNX's own shape inference
is not asked: damaged attributes crash it (1.23: GatherND with batch_dims -3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from twinfer.converter.emit.emitter import Budget, constant
from twinfer.converter.onnx.node import attributes_of
from twinfer.runtime.graph import Tensor

#: A node's inputs. Absent ones at the end are left out; absent ones before others have no elements.
Values = Sequence[NDArray[Any]]
Attributes = Mapping[str, Any]


def elements(op: str, inputs: Values, attributes: Attributes) -> int:
    """About how many elements the results have. Operators that are not in GROWING have as many as broadcasting gives,
    or as all inputs together. A damaged node may raise any exception."""
    if op in GROWING:
        return int(GROWING[op](inputs, attributes))
    try:
        return math.prod(np.broadcast_shapes(*(value.shape for value in inputs if value.size)))
    except ValueError:
        return sum(value.size for value in inputs)


def element_bytes(op: str, inputs: Values, attributes: Attributes) -> int:
    """Bytes per element of the results: those of input 0 if the others are shapes and places, else the widest."""
    if op == "ConstantOfShape":
        return int(np.asarray(attributes.get("value", np.float32(0))).itemsize)
    told_by = inputs[:1] if op in _OF_FIRST else inputs
    return max((value.itemsize for value in told_by), default=1)


def _product(values: Any) -> int:
    """The product, exact; negative factors count as 0."""
    return math.prod(max(0, int(v)) for v in np.asarray(values).reshape(-1))


def _range(inputs: Values, _: Attributes) -> int:
    start, limit, step = (float(value.reshape(-1)[0]) for value in inputs)
    return max(0, math.ceil((limit - start) / step))


def _pad(inputs: Values, _: Attributes) -> int:
    x, pads = inputs[0], [int(p) for p in inputs[1].reshape(-1)]
    axes = [int(a) for a in inputs[3]] if len(inputs) > 3 else list(range(x.ndim))
    more = {axis % x.ndim: pads[i] + pads[i + len(axes)] for i, axis in enumerate(axes)}
    return _product([extent + more.get(i, 0) for i, extent in enumerate(x.shape)])


def _resize(inputs: Values, attributes: Attributes) -> int:
    """The elements by sizes, else by scales: the last inputs that hold some."""
    x, given = inputs[0], [value for value in inputs[1:] if value.size]
    if given[-1].dtype.kind == "i":
        return _product(given[-1]) * (x.size if "axes" in attributes else 1)
    return math.ceil(x.size * math.prod(float(s) for s in given[-1]))


def _matmul(inputs: Values, _: Attributes) -> int:
    a, b = inputs[0], inputs[1]
    rows, columns = a.shape[-2] if a.ndim > 1 else 1, b.shape[-1] if b.ndim > 1 else 1
    return _product([*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), rows, columns])


def _gather_nd(inputs: Values, _: Attributes) -> int:
    x, indices = inputs[0], inputs[1]
    depth = indices.shape[-1]
    return int(indices.size // max(1, depth)) * _product(x.shape[depth:])


def _windows(inputs: Values, attributes: Attributes) -> int:
    """Convolution, also transposed. An upper bound: extents times the stride, plus padding, kernel and output sizes.

    The results' channels are the weights' dimension 0, transposed their dimension 1 in each group.
    """
    x, weights = inputs[0], inputs[1]
    channels = max(x.shape[1], weights.shape[0], weights.shape[1] * int(attributes.get("group", 1)), 1)
    pads, strides = attributes.get("pads", ()), attributes.get("strides", ())
    kernel = [*attributes.get("kernel_shape", ()), *(d for value in inputs[1:2] for d in value.shape[2:])]
    reach = sum(abs(v) for key in ("output_padding", "output_shape") for v in attributes.get(key, ()))
    reach += sum(map(abs, pads))
    reach += sum(kernel) * max(map(abs, attributes.get("dilations", (1,))), default=1)
    return _product([x.shape[0], channels, *(d * max(map(abs, strides), default=1) + reach for d in x.shape[2:])])


def _outer(inputs: Values, _: Attributes) -> int:
    """As many as there are pairs of elements: an upper bound."""
    return math.prod(max(1, value.size) for value in inputs)


def _named(*sizes: int) -> Callable[[Values, Attributes], int]:
    """The product of the values of these inputs."""
    return lambda inputs, _: math.prod(_product(inputs[i]) for i in sizes if i < len(inputs))


#: Operators whose results have the type of their first input.
_OF_FIRST = frozenset(("Expand", "Tile", "Pad", "CenterCropPad", "Resize", "Upsample", "Gather", "GatherND"))

#: Operator -> elements of its results.
GROWING: Mapping[str, Callable[[Values, Attributes], int]] = {
    "ConstantOfShape": _named(0),
    "Expand": lambda inputs, _: _product(np.broadcast_shapes(inputs[0].shape, tuple(int(d) for d in inputs[1]))),
    "Tile": lambda inputs, _: inputs[0].size * _product(inputs[1]),
    "Range": _range,
    "Pad": _pad,
    "CenterCropPad": lambda inputs, _: inputs[0].size * _product(inputs[1]),
    "OneHot": lambda inputs, _: inputs[0].size * _product(inputs[1]),
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    **dict.fromkeys(("MatMul", "MatMulInteger"), _matmul),
    "Gemm": lambda inputs, attributes: (
        inputs[0].shape[bool(attributes.get("transA"))] * inputs[1].shape[not attributes.get("transB")]
    ),
    **dict.fromkeys(("QLinearMatMul", "Einsum"), _outer),
    "Gather": lambda inputs, attributes: (
        inputs[0].size // max(1, inputs[0].shape[int(attributes.get("axis", 0))]) * inputs[1].size
    ),
    "GatherND": _gather_nd,
    "Concat": lambda inputs, _: sum(value.size for value in inputs),
    **dict.fromkeys(("HannWindow", "HammingWindow", "BlackmanWindow"), _named(0)),
    "MelWeightMatrix": _named(0, 1),
    "AffineGrid": lambda inputs, _: 3 * _product(inputs[1]),
    "MaxUnpool": lambda inputs, _: inputs[0].size * _product(inputs[2]) if len(inputs) > 2 else 0,
    "Col2Im": lambda inputs, _: inputs[0].size * _product(inputs[1]),
    "DFT": lambda inputs, _: 2 * inputs[0].size * (_product(inputs[1]) if len(inputs) > 1 else 1),
    "RoiAlign": lambda inputs, attributes: (
        inputs[1].size
        * inputs[0].size
        * abs(attributes.get("output_height", 1))
        * abs(attributes.get("output_width", 1))
    ),
    "GridSample": lambda inputs, _: inputs[0].size * inputs[1].size,
    **dict.fromkeys(("Conv", "ConvInteger", "ConvTranspose"), _windows),
}


#: Not computed ahead: random results, control flow, what keeps its integers and scales, and what the reference
#: implementation may hang in: pooling and n-grams loop in Python.
NOT_FOLDED = frozenset(
    {
        "AveragePool", "Bernoulli", "DequantizeLinear", "If", "Loop", "LpPool", "MaxPool",
        "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Scan",
        "TfIdfVectorizer",
    }
)  # fmt: skip


def _in_range(proto: onnx.NodeProto, inputs: Sequence[Tensor | None]) -> bool:
    """Whether ONNX's reference implementation will do: it walks to an index far out of range step by step."""
    x, indices = inputs[0], inputs[1]
    axis = int(attributes_of(proto).get("axis", 0))
    if x is None or indices is None or indices.data is None or not -len(x.shape) <= axis < len(x.shape):
        return False
    return bool(((indices.data < x.shape[axis]) & (indices.data >= -x.shape[axis])).all())


def fold(
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
    if proto.op_type == "GatherElements" and not _in_range(proto, inputs):
        return None
    arrays = [np.empty(0, np.int8) if tensor is None else np.asarray(tensor.data) for tensor in inputs]
    try:
        asked = proto.op_type, arrays, attributes_of(proto)
        size = elements(*asked) * element_bytes(*asked)
    except Exception:  # of a damaged node, whose error comes later: wrong attributes, inputs that are missing, …
        size = 0
    brought = int(proto.ByteSize()) + sum(array.nbytes for array in arrays)
    budget.take(size - brought, "its result, which is constant,")
    try:
        with np.errstate(all="ignore"):
            feeds = {name: tensor.data for name, tensor in given.items()}
            results = ReferenceEvaluator(proto, opsets=dict(opsets)).run(None, feeds)
    except Exception:  # it lacks the operator, this form of it or a package; or the importer will say what is wrong
        return None
    named = zip(proto.output, results, strict=False)
    return [None if value is None else constant(np.asarray(value), name) for name, value in named]
