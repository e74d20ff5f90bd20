"""Operators that move no element or all of them in order: shapes, transposes, casts, and what does nothing."""

from __future__ import annotations

import math

import numpy as np
import onnx

from twinfer.converter.emit.emitter import TYPES, Emitter, constant
from twinfer.converter.onnx.node import OnnxNode, positive
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Tensor


def identity(g: Emitter, node: OnnxNode) -> Tensor:
    return node.input(0)


def dropout(g: Emitter, node: OnnxNode) -> tuple[Tensor, Tensor]:
    """Dropout does nothing when a model runs. The mask is true everywhere, if anything reads it."""
    training = node.constant(2)
    node.need(training is None or not training.any(), "training mode; export the model for inference (model.eval())")
    return node.input(0), constant(np.ones(node.input(0).shape, np.bool_))


def reshape(g: Emitter, node: OnnxNode) -> Tensor:
    x, shape = node.input(0), list(node.ints("shape", 1) or ())
    if not node.attribute("allowzero", 0):
        shape = [x.shape[i] if d == 0 and i < len(x.shape) else d for i, d in enumerate(shape)]
    if -1 in shape:
        rest = math.prod(d for d in shape if d != -1)
        shape[shape.index(-1)] = x.size // rest if rest else 0
    if math.prod(shape) != x.size or min(shape, default=0) < 0:
        raise ModelError(f"{node}: {list(x.shape)} cannot be reshaped to {list(node.ints('shape', 1) or ())}")
    return g.reshape(x, shape)


def flatten(g: Emitter, node: OnnxNode) -> Tensor:
    x, axis = node.input(0), int(node.attribute("axis", 1))
    axis = axis + len(x.shape) if axis < 0 else axis
    return g.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


def squeeze(g: Emitter, node: OnnxNode) -> Tensor:
    x, axes = node.input(0), node.ints("axes", 1)
    rank = len(x.shape)
    if axes is None:
        axes = tuple(i for i, d in enumerate(x.shape) if d == 1)
    dropped = {positive(node, axis, rank) for axis in axes}
    if any(x.shape[axis] != 1 for axis in dropped):
        raise ModelError(f"{node}: axes {sorted(dropped)} of {list(x.shape)} are not all 1")
    return g.reshape(x, [d for i, d in enumerate(x.shape) if i not in dropped])


def unsqueeze(g: Emitter, node: OnnxNode) -> Tensor:
    x, axes = node.input(0), node.ints("axes", 1) or ()
    rank = len(x.shape) + len(axes)
    new, rest = {positive(node, axis, rank) for axis in axes}, iter(x.shape)
    if len(new) < len(axes):
        raise ModelError(f"{node}: axes {list(axes)} name one axis twice")
    return g.reshape(x, [1 if i in new else next(rest) for i in range(rank)])


def transpose(g: Emitter, node: OnnxNode) -> Tensor:
    x = node.input(0)
    return g.transpose(x, node.attribute("perm", list(reversed(range(len(x.shape))))))


def shape(g: Emitter, node: OnnxNode) -> Tensor:
    """Shapes are static here: a constant."""
    part = slice(node.attribute("start", 0), node.attribute("end", None))
    return constant(np.array(node.input(0).shape[part], np.int64))


def size(g: Emitter, node: OnnxNode) -> Tensor:
    return constant(np.array(node.input(0).size, np.int64))


def cast(g: Emitter, node: OnnxNode) -> Tensor:
    return _as(g, node.input(0), tensor_type(int(node.attribute("to", 0))))


def cast_like(g: Emitter, node: OnnxNode) -> Tensor:
    narrow = node.input(1).extra.get("narrow")
    if narrow is not None:  # the constant is carried in a wider type than it has
        raise UnsupportedOperatorError(f"tensors of type {narrow.upper()}; export the model in float32")
    return _as(g, node.input(0), node.input(1).type)


def _as(g: Emitter, x: Tensor, kind: str) -> Tensor:
    return g.unary("CAST", x, kind, in_data_type=x.type, out_data_type=kind) if kind != x.type else x


def tensor_type(code: int) -> str:
    """TFLite's name of an ONNX element type; UnsupportedOperatorError if it has none."""
    name = onnx.TensorProto.DataType.Name(code) if code in onnx.TensorProto.DataType.values() else str(code)
    try:
        return TYPES[np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))]
    except KeyError:
        raise UnsupportedOperatorError(f"tensors of type {name}; export the model in float32") from None


def expand(g: Emitter, node: OnnxNode) -> Tensor:
    x = node.input(0)
    wanted = np.broadcast_shapes(x.shape, node.ints("shape", 1) or ())
    if wanted == x.shape:
        return x
    x = g.reshape(x, (*[1] * (len(wanted) - len(x.shape)), *x.shape))
    repeats = [n if d == 1 else 1 for n, d in zip(wanted, x.shape, strict=True)]
    return g.emit("TILE", [x, np.array(repeats, np.int32)], wanted)


IMPORTERS = {
    "Cast": cast,
    "CastLike": cast_like,
    "Dropout": dropout,
    "Expand": expand,
    "Flatten": flatten,
    "Identity": identity,
    "Reshape": reshape,
    "Shape": shape,
    "Size": size,
    "Squeeze": squeeze,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
}
