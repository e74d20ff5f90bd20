"""Operations of keras.ops, as functional models have them between layers, and in the code of layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from twinfer.converter.emit.activation import clamp
from twinfer.converter.emit.dense import matmul
from twinfer.converter.emit.einsum import einsum
from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.emit.normalize import mean
from twinfer.converter.keras.call import Call, as_tensor
from twinfer.runtime.graph import Tensor

Importer = Callable[[Emitter, Call], Tensor | list[Tensor]]


def _number(value: Any, like: Tensor) -> Any:
    """The other operand; numbers and arrays get the tensor's type."""
    return value if isinstance(value, Tensor) else np.asarray(value, like.dtype)


def _pair(call: Call) -> tuple[Any, Any]:
    a, b = call.argument(0, "x1"), call.argument(1, "x2")
    like = a if isinstance(a, Tensor) else b
    return _number(a, like), _number(b, like)


def _binary(op: str, type: str = "") -> Importer:
    return lambda g, call: g.binary(op, *_pair(call), type)


def _unary(op: str) -> Importer:
    return lambda g, call: g.unary(op, call.input())


def power(g: Emitter, call: Call) -> Tensor:
    x, y = _pair(call)
    if isinstance(y, np.ndarray) and y.size == 1 and y.reshape(-1)[0] == 2:
        return g.binary("MUL", x, x)
    return g.binary("POW", x, y)


def clip(g: Emitter, call: Call) -> Tensor:
    return clamp(g, call.input(), float(call.layer.x_min), float(call.layer.x_max))


def _axes(call: Call, x: Tensor) -> tuple[int, ...]:
    axis = call.layer.axis
    given = range(len(x.shape)) if axis is None else axis if isinstance(axis, list | tuple) else [axis]
    return tuple(sorted(int(a) % len(x.shape) for a in given))


def _reduction(op: str) -> Importer:
    def run(g: Emitter, call: Call) -> Tensor:
        x = call.input()
        axes = np.array(_axes(call, x), np.int32)
        return g.emit(op, [x, axes], call.shape, keep_dims=bool(call.layer.keepdims))

    return run


def variance(g: Emitter, call: Call) -> Tensor:
    x = call.input()
    axes = _axes(call, x)
    rest = g.binary("SUB", x, mean(g, x, axes))
    return g.reshape(mean(g, g.binary("MUL", rest, rest), axes), call.shape)


def reshape(g: Emitter, call: Call) -> Tensor:
    return g.reshape(call.input(), call.shape)


def transpose(g: Emitter, call: Call) -> Tensor:
    x = call.input()
    return g.transpose(x, call.layer.axes or tuple(reversed(range(len(x.shape)))))


def swapaxes(g: Emitter, call: Call) -> Tensor:
    x = call.input()
    order = list(range(len(x.shape)))
    a, b = (int(v) % len(order) for v in (call.layer.axis1, call.layer.axis2))
    order[a], order[b] = order[b], order[a]
    return g.transpose(x, order)


def product(g: Emitter, call: Call) -> Tensor:
    a, b = (as_tensor(g, v) for v in _pair(call))
    return matmul(g, a, b)


def summation(g: Emitter, call: Call) -> Tensor:
    equation = call.layer.subscripts
    return einsum(g, equation, [as_tensor(g, v) for v in call.args])


def concatenate(g: Emitter, call: Call) -> Tensor:
    parts = [as_tensor(g, part) for part in call.inputs()]
    return g.concat(parts, int(call.layer.axis) % len(call.shape))


def stack(g: Emitter, call: Call) -> Tensor:
    axis = int(call.layer.axis) % len(call.shape)
    shape = tuple(1 if d == axis else n for d, n in enumerate(call.shape))
    return g.concat([g.reshape(as_tensor(g, part), shape) for part in call.inputs()], axis)


def split(g: Emitter, call: Call) -> list[Tensor]:
    x, axis = call.input(), int(call.layer.axis) % len(call.input().shape)
    starts = np.cumsum([0, *(shape[axis] for shape in call.shapes)])
    begins = [[int(start) if d == axis else 0 for d in range(len(x.shape))] for start in starts]
    return [g.part(x, begin, shape) for begin, shape in zip(begins, call.shapes, strict=False)]


def cast(g: Emitter, call: Call) -> Tensor:
    x, wanted = call.input(), str(call.layer.dtype)
    kind = {"float16": "FLOAT32", "bfloat16": "FLOAT32"}.get(wanted, wanted.upper())
    return g.unary("CAST", x, kind, in_data_type=x.type, out_data_type=kind) if kind != x.type else x


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
    ranges = [_range(p, n) for p, n in zip(taken + [slice(None)] * (len(x.shape) - len(taken)), x.shape, strict=True)]
    return g.reshape(g.slices(x, ranges), call.shape)


def _range(part: Any, extent: int) -> range:
    if isinstance(part, slice):
        return range(*part.indices(extent))
    return range(int(part) % extent, int(part) % extent + 1)


def where(g: Emitter, call: Call) -> Tensor:
    condition, x, y = (call.argument(i, name) for i, name in enumerate(("condition", "x1", "x2")))
    like = x if isinstance(x, Tensor) else y if isinstance(y, Tensor) else as_tensor(g, x)
    return g.emit("SELECT_V2", [as_tensor(g, condition), _number(x, like), _number(y, like)], call.shape, like.type)


def take(g: Emitter, call: Call) -> Tensor:
    x, indices = as_tensor(g, call.argument(0, "x")), call.argument(1, "indices")
    axis = call.layer.axis
    call.need(axis is not None, "take from all elements in order; give it an axis")
    if not isinstance(indices, Tensor):
        table = np.asarray(indices)
        return g.gather(x, np.where(table < 0, table + x.shape[axis], table), axis % len(x.shape))
    return g.emit("GATHER", [x, indices], call.shape, axis=axis % len(x.shape))


def flip(g: Emitter, call: Call) -> Tensor:
    x = call.input()
    for axis in _axes(call, x):
        x = g.flip(x, axis)
    return x


def repeated(g: Emitter, call: Call) -> Tensor:
    """Repeats every element so many times in a row."""
    x, times, axis = call.input(), call.layer.repeats, call.layer.axis
    call.need(axis is not None and isinstance(times, int), "repeats that differ, or without an axis")
    return g.gather(x, np.repeat(np.arange(x.shape[axis]), times), axis % len(x.shape))


def padded(g: Emitter, call: Call) -> Tensor:
    own, x = call.layer, call.input()
    call.need(own.mode == "constant", f"padding of mode {own.mode}; use constant")
    value = call.argument(1, "constant_values")
    return g.pad(x, [(int(a), int(b)) for a, b in own.pad_width], 0 if value is None else value)


def full(g: Emitter, call: Call) -> Tensor:
    """A tensor broadcast to a shape."""
    x = call.input()
    x = g.reshape(x, (*[1] * (len(call.shape) - len(x.shape)), *x.shape))
    repeats = [n if d == 1 else 1 for n, d in zip(call.shape, x.shape, strict=True)]
    return g.emit("TILE", [x, np.array(repeats, np.int32)], call.shape) if math.prod(repeats) > 1 else x


def kept(g: Emitter, call: Call) -> Tensor:
    return call.input()


UNARY = {
    "Abs": "ABS", "Absolute": "ABS", "Ceil": "CEIL", "Cos": "COS", "Exp": "EXP", "Floor": "FLOOR", "Log": "LOG",
    "LogicalNot": "LOGICAL_NOT", "Negative": "NEG", "Round": "ROUND", "Rsqrt": "RSQRT", "Sign": "SIGN", "Sin": "SIN",
    "Sqrt": "SQRT", "Square": "SQUARE",
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
    **{f"ops.{name}": _binary(op, "BOOL") for name, op in COMPARE.items()},
    **{f"ops.{name}": _reduction(op) for name, op in REDUCTIONS.items()},
    **{f"ops.{name}": reshape for name in ("ExpandDims", "Ravel", "Reshape", "Squeeze")},
    "ops.BroadcastTo": full,
    "ops.Cast": cast,
    "ops.Clip": clip,
    "ops.Concatenate": concatenate,
    "ops.ConvertToTensor": kept,
    "ops.Copy": kept,
    "ops.Einsum": summation,
    "ops.Flip": flip,
    "ops.GetItem": item,
    "ops.Matmul": product,
    "ops.Pad": padded,
    "ops.Power": power,
    "ops.Repeat": repeated,
    "ops.Split": split,
    "ops.Stack": stack,
    "ops.StopGradient": kept,
    "ops.Swapaxes": swapaxes,
    "ops.Take": take,
    "ops.Transpose": transpose,
    "ops.Var": variance,
    "ops.Where": where,
}
