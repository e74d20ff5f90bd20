"""Operations of keras.ops, as functional models have them between layers, and in the code of layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.emit.functions import clamp, mean, reduced
from twinfer.converter.emit.products import einsum, matmul
from twinfer.converter.keras.call import CARRIED, NAMES, Call, as_tensor, dimensions
from twinfer.runtime.graph import DTYPES, Tensor

Importer = Callable[[Emitter, Call], Tensor | list[Tensor]]


def _typed(g: Emitter, value: Any, kind: str) -> Any:
    """An operand as one of this type; numbers become arrays."""
    return g.cast(value, kind) if isinstance(value, Tensor) else np.asarray(value, DTYPES[kind])


def _pair(g: Emitter, call: Call, kind: str) -> tuple[Any, Any]:
    return _typed(g, call.argument(0, "x1"), kind), _typed(g, call.argument(1, "x2"), kind)


def _binary(op: str) -> Importer:
    """Both operands have the type of the result."""
    return lambda g, call: g.binary(op, *_pair(g, call, call.type))


def _comparison(op: str) -> Importer:
    """Both operands have the type that holds the values of both."""

    def run(g: Emitter, call: Call) -> Tensor:
        operands = call.argument(0, "x1"), call.argument(1, "x2")
        types = [NAMES[v.type] if isinstance(v, Tensor) else getattr(v, "dtype", type(v)) for v in operands]
        kind = keras.backend.result_type(*(str(t) if isinstance(t, np.dtype) else t for t in types))
        return g.binary(op, *_pair(g, call, CARRIED.get(kind, kind.upper())), "BOOL")

    return run


def round_to(g: Emitter, call: Call) -> Tensor:
    """To a number of decimals."""
    x = g.cast(call.input(), call.type)
    if not (decimals := call.layer.decimals):
        return g.unary("ROUND", x)
    factor = np.array(10.0**decimals, np.float32)
    return g.binary("DIV", g.unary("ROUND", g.binary("MUL", x, factor)), factor)


def _unary(op: str) -> Importer:
    return lambda g, call: g.unary(op, g.cast(call.input(), call.type))


def square(g: Emitter, call: Call) -> Tensor:
    x = g.cast(call.input(), call.type)
    return g.unary("SQUARE", x) if x.type == "FLOAT32" else g.binary("MUL", x, x)


def power(g: Emitter, call: Call) -> Tensor:
    x, y = _pair(g, call, call.type)
    if isinstance(y, np.ndarray) and y.size == 1 and y.ndim <= len(x.shape) and y.reshape(-1)[0] == 2:
        return g.binary("MUL", x, x)
    return g.binary("POW", x, y)


def clip(g: Emitter, call: Call) -> Tensor:
    x, low, high = g.cast(call.input(), call.type), call.layer.x_min, call.layer.x_max
    if x.type == "FLOAT32" and np.ndim(low) == np.ndim(high) == 0:
        return clamp(g, x, float(low), float(high))
    return g.binary("MINIMUM", g.binary("MAXIMUM", x, _typed(g, low, x.type)), _typed(g, high, x.type))


def _reduction(op: str) -> Importer:
    def run(g: Emitter, call: Call) -> Tensor:
        x = g.cast(call.input(), call.type)
        y = reduced(g, op, x, tuple(sorted(dimensions(call.layer.axis, x))), bool(call.layer.keepdims))
        first = getattr(call.layer, "initial", None)
        return y if first is None else g.binary(op.replace("REDUCE_", "") + "IMUM", y, np.array(first, y.dtype))

    return run


def variance(g: Emitter, call: Call) -> Tensor:
    x = g.cast(call.input(), call.type)
    axes = dimensions(call.layer.axis, x)
    rest = g.binary("SUB", x, mean(g, x, axes))
    return g.reshape(mean(g, g.binary("MUL", rest, rest), axes), call.shape)


def swapaxes(g: Emitter, call: Call) -> Tensor:
    x = call.input()
    order = list(range(len(x.shape)))
    a, b = (int(v) % len(order) for v in (call.layer.axis1, call.layer.axis2))
    order[a], order[b] = order[b], order[a]
    return g.transpose(x, order)


def product(g: Emitter, call: Call) -> Tensor:
    a, b = (as_tensor(g, v) for v in _pair(g, call, call.type))
    return matmul(g, a, b)


def summation(g: Emitter, call: Call) -> Tensor:
    equation = call.layer.subscripts
    return einsum(g, equation, [as_tensor(g, _typed(g, v, call.type)) for v in call.args])


def concatenate(g: Emitter, call: Call) -> Tensor:
    parts = [as_tensor(g, _typed(g, part, call.type)) for part in call.inputs()]
    return g.concat(parts, int(call.layer.axis) % len(call.shape))


def stack(g: Emitter, call: Call) -> Tensor:
    axis = int(call.layer.axis) % len(call.shape)
    shape = tuple(1 if d == axis else n for d, n in enumerate(call.shape))
    return g.concat([g.reshape(as_tensor(g, _typed(g, part, call.type)), shape) for part in call.inputs()], axis)


def split(g: Emitter, call: Call) -> list[Tensor]:
    x, axis = call.input(), int(call.layer.axis) % len(call.input().shape)
    starts = np.cumsum([0, *(shape[axis] for shape in call.shapes)])
    begins = [[int(start) if d == axis else 0 for d in range(len(x.shape))] for start in starts]
    return [g.part(x, begin, shape) for begin, shape in zip(begins, call.shapes, strict=False)]


def item(g: Emitter, call: Call) -> Tensor:
    """x[key] for numbers, slices, None and …"""
    x, key = call.input(), call.args[1] if len(call.args) > 1 else call.kwargs["key"]
    parts = list(key) if isinstance(key, tuple) else [key]
    known = all(p is None or p is Ellipsis or isinstance(p, int | np.integer | slice) for p in parts)
    call.need(known, "an index that is a tensor; use keras.ops.take")
    if Ellipsis in parts:
        at = parts.index(Ellipsis)
        parts[at : at + 1] = [slice(None)] * (len(x.shape) - sum(p is not None for p in parts) + 1)
    taken = [p for p in parts if p is not None]
    taken += [slice(None)] * (len(x.shape) - len(taken))
    pairs = zip(taken, x.shape, strict=True)
    ranges = [range(n)[p] if isinstance(p, slice) else range(int(p) % n, int(p) % n + 1) for p, n in pairs]
    return g.reshape(g.slices(x, ranges), call.shape)


def where(g: Emitter, call: Call) -> Tensor:
    condition = as_tensor(g, _typed(g, call.argument(0, "condition"), "BOOL"))
    x, y = (_typed(g, call.argument(i, name), call.type) for i, name in ((1, "x1"), (2, "x2")))
    return g.emit("SELECT_V2", [condition, x, y], call.shape, call.type)


def take(g: Emitter, call: Call) -> Tensor:
    x, indices = as_tensor(g, call.argument(0, "x")), call.argument(1, "indices")
    axis = call.layer.axis
    x, axis = (g.reshape(x, (x.size,)), 0) if axis is None else (x, axis % len(x.shape))
    return g.gather(x, indices if isinstance(indices, Tensor) else np.asarray(indices), axis)


def take_along_axis(g: Emitter, call: Call) -> Tensor:
    x, indices, axis = as_tensor(g, call.argument(0, "x")), call.argument(1, "indices"), call.layer.axis
    indices = indices if isinstance(indices, Tensor) else np.asarray(indices)
    x, axis = (g.reshape(x, (x.size,)), 0) if axis is None else (x, axis % len(x.shape))
    most = np.maximum(x.shape, indices.shape)
    whole, wanted = (tuple(n if i == axis else int(m) for i, (n, m) in enumerate(zip(shape, most, strict=True)))
                     for shape in (x.shape, indices.shape))  # fmt: skip
    at = g.repeat(indices, wanted) if isinstance(indices, Tensor) else np.broadcast_to(indices, wanted)
    return g.take_along(g.repeat(x, whole), at, axis)


def one_hot(g: Emitter, call: Call) -> Tensor:
    """Indices below zero and beyond the last class give rows of zeros, as in TFLite."""
    own, x = call.layer, call.input()
    call.need(not own.sparse, "a sparse result; leave sparse out")
    x = x if x.type in ("INT32", "INT64") else g.cast(x, "INT32")
    count, ends = np.array(own.num_classes, np.int32), (np.array(v, DTYPES[call.type]) for v in (1, 0))
    axis = own.axis % len(call.shape)
    return g.emit("ONE_HOT", [x, count, *ends], call.shape, call.type, axis=axis if axis < len(call.shape) - 1 else -1)


def flip(g: Emitter, call: Call) -> Tensor:
    x = call.input()
    for axis in dimensions(call.layer.axis, x):
        x = g.flip(x, axis)
    return x


def padded(g: Emitter, call: Call) -> Tensor:
    own, x = call.layer, call.input()
    pads = np.broadcast_to(np.asarray(own.pad_width), (len(x.shape), 2))
    if own.mode in ("reflect", "symmetric"):
        return g.emit("MIRROR_PAD", [x, pads.astype(np.int32)], call.shape, mode=own.mode.upper())
    if own.mode in ("edge", "wrap"):
        for axis, (before, after) in enumerate(pads):
            n = x.shape[axis]
            at = np.arange(-before, n + after)
            x = g.gather(x, at.clip(0, n - 1) if own.mode == "edge" else at % n, axis) if before + after else x
        return x
    call.need(own.mode == "constant", f"padding of mode {own.mode}; use constant, reflect, symmetric, edge or wrap")
    value = call.argument(1, "constant_values")
    return g.pad(x, [(int(a), int(b)) for a, b in pads], 0 if value is None else value)


UNARY = {
    "Abs": "ABS", "Absolute": "ABS", "Ceil": "CEIL", "Cos": "COS", "Exp": "EXP", "Floor": "FLOOR", "Log": "LOG",
    "LogicalNot": "LOGICAL_NOT", "Negative": "NEG", "Rsqrt": "RSQRT", "Sign": "SIGN", "Sin": "SIN",
    "Sqrt": "SQRT",
}  # fmt: skip
BINARY = {
    "Add": "ADD", "Divide": "DIV", "LogicalAnd": "LOGICAL_AND", "LogicalOr": "LOGICAL_OR", "Maximum": "MAXIMUM",
    "Minimum": "MINIMUM", "Multiply": "MUL", "Subtract": "SUB", "TrueDivide": "DIV",
}  # fmt: skip
COMPARE = {
    "Equal": "EQUAL", "Greater": "GREATER", "GreaterEqual": "GREATER_EQUAL", "Less": "LESS", "LessEqual": "LESS_EQUAL",
    "NotEqual": "NOT_EQUAL",
}  # fmt: skip
REDUCTIONS = {
    "Amax": "REDUCE_MAX", "Amin": "REDUCE_MIN", "Max": "REDUCE_MAX", "Mean": "MEAN", "Min": "REDUCE_MIN",
    "Prod": "REDUCE_PROD", "Sum": "SUM",
}  # fmt: skip

IMPORTERS: dict[str, Importer] = {
    **{f"ops.{name}": _unary(op) for name, op in UNARY.items()},
    **{f"ops.{name}": _binary(op) for name, op in BINARY.items()},
    **{f"ops.{name}": _comparison(op) for name, op in COMPARE.items()},
    **{f"ops.{name}": _reduction(op) for name, op in REDUCTIONS.items()},
    **{
        f"ops.{name}": lambda g, call: g.reshape(call.input(), call.shape)
        for name in ("ExpandDims", "Ravel", "Reshape", "Squeeze")
    },
    "ops.BroadcastTo": lambda g, call: g.repeat(call.input(), call.shape),
    "ops.Cast": lambda g, call: g.cast(call.input(), call.type),
    "ops.Clip": clip,
    "ops.Concatenate": concatenate,
    **{f"ops.{name}": lambda g, call: call.input() for name in ("ConvertToTensor", "Copy", "StopGradient")},
    "ops.Einsum": summation,
    "ops.Flip": flip,
    "ops.GetItem": item,
    "ops.Matmul": product,
    "ops.OneHot": one_hot,
    "ops.Pad": padded,
    "ops.Power": power,
    "ops.Round": round_to,
    "ops.Split": split,
    "ops.Square": square,
    "ops.Stack": stack,
    "ops.Swapaxes": swapaxes,
    "ops.Take": take,
    "ops.TakeAlongAxis": take_along_axis,
    "ops.Transpose": lambda g, call: g.transpose(call.input(), call.layer.axes or range(len(call.input().shape))[::-1]),
    "ops.Var": variance,
    "ops.Where": where,
}
