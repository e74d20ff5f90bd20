"""Operators that compute nothing: shapes, transposes, casts, and what takes tensors apart and puts them together."""

from __future__ import annotations

import math

import numpy as np
import onnx

from twinfer.converter.build import TYPES
from twinfer.converter.emit.emitter import NCHW, NHWC, Emitter, constant
from twinfer.converter.onnx.node import HINTS, Importer, OnnxNode, positive
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import DTYPES, Tensor

#: ONNX's types whose values are carried in FLOAT32.
HALVES_AND_DOUBLES = ("FLOAT16", "BFLOAT16", "DOUBLE")

#: Integers narrower than a byte, whose values are carried in INT8: how many bits they have.
BITS = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}


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


def shape(g: Emitter, node: OnnxNode) -> Tensor:
    """Shapes are static here: a constant."""
    part = slice(node.attribute("start", 0), node.attribute("end", None))
    return constant(np.array(node.input(0).shape[part], np.int64))


def cast(g: Emitter, node: OnnxNode) -> Tensor:
    code = int(node.attribute("to", 0))
    narrow = onnx.TensorProto.DataType.Name(code).lower() if code in onnx.TensorProto.DataType.values() else ""
    return to_narrow(g, node.input(0), narrow) if narrow in BITS else g.cast(node.input(0), tensor_type(code))


def cast_like(g: Emitter, node: OnnxNode) -> Tensor:
    narrow = node.input(1).extra.get("narrow")
    return to_narrow(g, node.input(0), narrow) if narrow in BITS else g.cast(node.input(0), node.input(1).type)


def to_narrow(g: Emitter, x: Tensor, narrow: str) -> Tensor:
    """The values that an integer of 4 or 2 bits keeps, in INT8. Others wrap around."""
    count, least = 1 << BITS[narrow], 0 if narrow.startswith("u") else -(1 << (BITS[narrow] - 1))
    steps = g.cast(x, "INT32")
    steps = g.binary("SUB", steps, np.array(least, np.int32)) if least else steps
    steps = g.binary("FLOOR_MOD", steps, np.array(count, np.int32))
    steps = g.binary("ADD", steps, np.array(least, np.int32)) if least else steps
    return g.cast(steps, "INT8")


def tensor_type(code: int) -> str:
    """TFLite's name of an ONNX element type, FLOAT32 for all floats of 16 and 64 bits; UnsupportedOperatorError if it
    has none."""
    name = onnx.TensorProto.DataType.Name(code) if code in onnx.TensorProto.DataType.values() else str(code)
    if name in HALVES_AND_DOUBLES:
        return "FLOAT32"
    if name == "STRING":
        raise UnsupportedOperatorError("strings, which TFLite does not compute with: make numbers of them before")
    try:
        return TYPES[np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))]
    except KeyError:
        raise UnsupportedOperatorError(f"tensors of type {name}; export the model in float32") from None


def expand(g: Emitter, node: OnnxNode) -> Tensor:
    x = node.input(0)
    return g.repeat(x, np.broadcast_shapes(x.shape, node.ints("shape", 1) or ()))


def concat(g: Emitter, node: OnnxNode) -> Tensor:
    return g.concat([node.input(i) for i in range(len(node.inputs))], node.axis(0))


def split(g: Emitter, node: OnnxNode) -> tuple[Tensor, ...]:
    x, axis = node.input(0), node.axis(0)
    sizes = node.ints("split", 1)
    if not sizes:  # equal parts; the last one is smaller where the extent does not divide
        extent, parts = x.shape[axis], len(node.outputs)
        each = -(-extent // parts)
        sizes = (*[each] * (parts - 1), extent - each * (parts - 1))
    if sum(sizes) != x.shape[axis] or len(sizes) != len(node.outputs) or min(sizes) < 0:
        raise ModelError(f"{node}: {list(x.shape)} cannot be split along {axis} into {list(sizes)}")
    return g.split(x, sizes, axis)


def slice_(g: Emitter, node: OnnxNode) -> Tensor:
    """Starts and ends are cut to the tensor, as numpy does; a negative step may end before the first element."""
    x = node.input(0)
    starts, ends = node.ints("starts", 1) or (), node.ints("ends", 2) or ()
    axes, steps = node.ints("axes", 3) or range(len(starts)), node.ints("steps", 4) or [1] * len(starts)
    ranges = [range(d) for d in x.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = positive(node, axis, len(x.shape))
        ranges[at] = range(*slice(start, end, step).indices(x.shape[at]))
    return g.slices(x, ranges)


def pad(g: Emitter, node: OnnxNode) -> Tensor:
    """Constant padding as PAD, reflected as MIRROR_PAD, other modes as GATHER of the elements that they repeat.
    Negative padding cuts."""
    x, mode, value = node.input(0), str(node.attribute("mode", "constant")), node.optional(2)
    pads = _pads(node)
    cuts = [(max(-before, 0), max(-after, 0)) for before, after in pads]
    more = [(max(before, 0), max(after, 0)) for before, after in pads]
    x = g.part(x, [cut[0] for cut in cuts], [d - sum(cut) for d, cut in zip(x.shape, cuts, strict=True)])
    if mode == "constant":
        if value is not None and value.data is None:
            return g.pad(x, more, value)
        return g.pad(x, more, 0 if value is None or not value.size else np.asarray(value.data).reshape(-1)[0])
    if mode == "reflect" and x.type != "BOOL" and all(max(both) < d for both, d in zip(more, x.shape, strict=True)):
        shape = tuple(d + sum(both) for d, both in zip(x.shape, more, strict=True))
        return g.emit("MIRROR_PAD", [x, np.array(more, np.int32)], shape, mode="REFLECT") if shape != x.shape else x
    for axis, both in enumerate(more):
        if any(both):
            x = g.gather(x, np.pad(np.arange(x.shape[axis]), both, mode=mode), axis)  # type: ignore[call-overload]
    return x


def _pads(node: OnnxNode) -> list[tuple[int, int]]:
    rank, given = len(node.input(0).shape), node.ints("pads", 1) or ()
    axes = node.ints("axes", 3) or tuple(range(rank))
    if len(given) != 2 * len(axes):
        raise ModelError(f"{node}: {len(given)} pads for {len(axes)} axes")
    pads = [(0, 0)] * rank
    for i, axis in enumerate(axes):
        pads[positive(node, axis, rank)] = (given[i], given[i + len(axes)])
    return pads


def trilu(g: Emitter, node: OnnxNode) -> Tensor:
    """Zeros below or above a diagonal of the last two dimensions."""
    x, given = node.input(0), node.constant(1)
    k = 0 if given is None else int(given.reshape(-1)[0])
    g.budget.afford(math.prod(x.shape[-2:]), "a triangle")
    ones = np.ones(x.shape[-2:], np.bool_)
    kept = np.triu(ones, k) if node.attribute("upper", 1) else np.tril(ones, k)
    return g.emit("SELECT_V2", [kept, x, np.array(0, x.dtype)], x.shape, x.type)


def eye_like(g: Emitter, node: OnnxNode) -> Tensor:
    """Ones on a diagonal of a matrix with the input's shape: a constant."""
    x, code = node.input(0), node.attribute("dtype", None)
    kind = x.type if code is None else tensor_type(int(code))
    g.budget.afford(x.size * DTYPES[kind].itemsize, "a diagonal matrix")
    rows, columns = x.shape
    return constant(np.eye(rows, columns, int(node.attribute("k", 0))).astype(DTYPES[kind]))


def depth_to_space(g: Emitter, node: OnnxNode) -> Tensor:
    """TFLite's order is DCR; CRD is the same with the channels sorted first."""
    x, block = g.transpose(node.input(0), NHWC), int(node.attribute("blocksize", 1))
    n, h, w, c = x.shape
    if c % (block * block):
        raise ModelError(f"{node}: {c} channels do not divide by {block}x{block}")
    if node.attribute("mode", "DCR") == "CRD":
        x = g.gather(x, np.arange(c).reshape(-1, block * block).T.reshape(-1), 3)
    shape = (n, h * block, w * block, c // block**2)
    return g.transpose(g.emit("DEPTH_TO_SPACE", [x], shape, block_size=block), NCHW)


def space_to_depth(g: Emitter, node: OnnxNode) -> Tensor:
    x, block = g.transpose(node.input(0), NHWC), int(node.attribute("blocksize", 1))
    n, h, w, c = x.shape
    shape = (n, h // block, w // block, c * block**2)
    return g.transpose(g.emit("SPACE_TO_DEPTH", [x], shape, block_size=block), NCHW)


def tile(g: Emitter, node: OnnxNode) -> Tensor:
    x, repeats = node.input(0), node.ints("repeats", 1) or ()
    return g.emit("TILE", [x, np.array(repeats, np.int32)], tuple(d * r for d, r in zip(x.shape, repeats, strict=True)))


def refused(g: Emitter, node: OnnxNode) -> Tensor:
    """An operator whose body would say less: of its constants alone there is something to compute."""
    raise UnsupportedOperatorError(HINTS[node.op])


IMPORTERS: dict[str, Importer] = {
    "BitCast": lambda g, node: g.emit(
        "BITCAST", [node.input(0)], node.input(0).shape, tensor_type(int(node.attribute("to", 0)))
    ),
    "Cast": cast,
    "CastLike": cast_like,
    "Dropout": dropout,
    "EyeLike": eye_like,
    "Expand": expand,
    "Flatten": flatten,
    "Identity": lambda g, node: node.input(0),
    "Optional": lambda g, node: node.input(0),
    "OptionalGetElement": lambda g, node: node.input(0),
    "OptionalHasElement": lambda g, node: constant(np.array(node.optional(0) is not None)),
    "Range": refused,
    "Reshape": reshape,
    "Shape": shape,
    "Size": lambda g, node: constant(np.array(node.input(0).size, np.int64)),
    "Squeeze": squeeze,
    "Transpose": lambda g, node: g.transpose(
        node.input(0), node.attribute("perm", range(len(node.input(0).shape))[::-1])
    ),
    "Unsqueeze": unsqueeze,
    "Concat": concat,
    "DepthToSpace": depth_to_space,
    "Pad": pad,
    "Slice": slice_,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Tile": tile,
    "Trilu": trilu,
}
