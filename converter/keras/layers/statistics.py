"""Reductions, running sums, what is sorted and counted: made of others of ``keras.ops``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from twinfer.converter.emit.emitter import Emitter, constant
from twinfer.converter.keras.call import Call, composed, dimensions
from twinfer.converter.keras.layers.expressions import number
from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import Tensor

ops = keras.ops


def _axes(axis: Any, x: Any) -> tuple[int, ...]:
    return dimensions(axis, x)


def _over(x: Any, axis: Any, keepdims: bool) -> tuple[Any, int, Callable[[Any], Any]]:
    """x with these axes as one, behind all others; and how a result without it, or with others in front, gets back
    to what ``keepdims`` asks for."""
    axes = _axes(axis, x)
    rest = [i for i in range(len(x.shape)) if i not in axes]
    flat = ops.reshape(
        ops.transpose(x, (*rest, *axes)), (*(x.shape[i] for i in rest), math.prod(x.shape[i] for i in axes))
    )

    def back(y: Any) -> Any:
        if not keepdims:
            return y
        front = tuple(y.shape[: len(y.shape) - len(rest)])
        return ops.reshape(y, (*front, *(1 if i in axes else n for i, n in enumerate(x.shape))))

    return flat, len(rest), back


def logsumexp(own: Any, x: Any) -> Any:
    top = ops.max(x, axis=own.axis, keepdims=True)
    y = ops.log(ops.sum(ops.exp(x - top), axis=own.axis, keepdims=True)) + top
    return y if own.keepdims else ops.squeeze(y, _axes(own.axis, x))


def average(own: Any, x: Any, weights: Any = None) -> Any:
    if weights is None:
        return ops.mean(x, axis=own.axis)
    if len(weights.shape) < len(x.shape):
        weights = ops.reshape(weights, [n if i in _axes(own.axis, x) else 1 for i, n in enumerate(x.shape)])
    total = ops.sum(weights, axis=own.axis, keepdims=True)
    return ops.sum(x * weights / total, axis=own.axis)


def count_nonzero(own: Any, x: Any) -> Any:
    return ops.sum(ops.cast(ops.not_equal(x, 0), "int32"), axis=own.axis)


def _where_number(x: Any, value: float) -> Any:
    return ops.where(number(x), x, np.float32(value))


def nan_mean(own: Any, x: Any) -> Any:
    count = ops.sum(ops.cast(number(x), "float32"), axis=own.axis, keepdims=own.keepdims)
    return ops.sum(_where_number(x, 0), axis=own.axis, keepdims=own.keepdims) / count


def nan_variance(own: Any, x: Any) -> Any:
    there = ops.cast(number(x), "float32")
    count, known = ops.sum(there, axis=own.axis, keepdims=True), _where_number(x, 0)
    middle = ops.sum(known, axis=own.axis, keepdims=True) / count
    y = ops.sum(ops.square(known - middle) * there, axis=own.axis, keepdims=True) / count
    return y if own.keepdims else ops.squeeze(y, _axes(own.axis, x))


def nan_position(name: str, value: float) -> Callable[[Any, Any], Any]:
    """Where the largest or smallest number is; -1 where there is none."""

    def run(own: Any, x: Any) -> Any:
        at = getattr(ops, name)(_where_number(x, value), axis=own.axis, keepdims=own.keepdims)
        return ops.where(ops.any(number(x), axis=own.axis, keepdims=own.keepdims), at, -1)

    return run


def nan_extreme(name: str, value: float) -> Callable[[Any, Any], Any]:
    """The largest or smallest number; NaN where there is none."""

    def run(own: Any, x: Any) -> Any:
        y = getattr(ops, name)(_where_number(x, value), axis=own.axis, keepdims=own.keepdims)
        return ops.where(ops.any(number(x), axis=own.axis, keepdims=own.keepdims), y, np.float32(np.nan))

    return run


def _levels(flat: Any, q: Any, method: str, count: Any = None) -> Any:
    """Quantiles q (numbers from 0 to 1) of sorted values along the last axis, stacked in front if q has an axis.

    ``count``, as the number of those that count: tensor [..., 1], or all."""
    levels = np.asarray(q, np.float64)
    size = flat.shape[-1]
    results = []
    for level in levels.reshape(-1):
        if count is None:
            at = float(level) * (size - 1)
            low, high = math.floor(at), math.ceil(at)
            pick = {"lower": low, "higher": high, "nearest": round(at)}
            if method in pick:
                results.append(flat[..., pick[method]])
            else:
                share = 0.5 if method == "midpoint" else at - low
                results.append(flat[..., low] * (1 - share) + flat[..., high] * share if low < high else flat[..., low])
            continue
        at = (ops.cast(count, "float32") - 1) * np.float32(level)
        low, high = ops.floor(at), ops.ceil(at)
        share = {"lower": 0.0, "higher": 1.0, "midpoint": 0.5, "nearest": ops.round(at) - low}.get(method, at - low)
        first, last = (ops.take_along_axis(flat, ops.cast(i, "int32"), -1) for i in (low, high))
        results.append(ops.squeeze(first + (last - first) * share, -1))
    return ops.stack(results, axis=0) if levels.ndim else results[0]


def _quantiles(nan: bool, percent: bool = False) -> Callable[..., Any]:
    def run(own: Any, x: Any, q: Any = 0.5) -> Any:
        if isinstance(q, keras.KerasTensor):
            raise UnsupportedOperatorError("quantiles that are an input; give them as numbers")
        levels = np.asarray(keras.ops.convert_to_numpy(q) if keras.ops.is_tensor(q) else q, np.float64)
        levels, method = levels / 100 if percent else levels, getattr(own, "method", "linear")
        flat, _, back = _over(
            x if keras.backend.is_float_dtype(x.dtype) else ops.cast(x, "float32"), own.axis, own.keepdims
        )
        if not nan:
            return back(_levels(ops.sort(flat), levels, method))
        there = ops.sum(ops.cast(number(flat), "int32"), axis=-1, keepdims=True)
        least = ops.maximum(there, 1)  # rows without a number
        y = _levels(ops.sort(_where_number(flat, 3e38)), levels, method, least)
        return back(ops.where(ops.equal(ops.squeeze(there, -1), 0), np.float32(np.nan), y))

    return run


def norm(own: Any, x: Any) -> Any:
    """Of vectors along one axis, or of matrices along two."""
    order, keep = own.ord, own.keepdims
    axis = own.axis
    if axis is None and order is None:
        return ops.sqrt(ops.sum(ops.square(x), keepdims=keep))
    axes = (
        list(range(len(x.shape))) if axis is None else [int(a) % len(x.shape) for a in np.atleast_1d(np.asarray(axis))]
    )
    if len(axes) == 1:
        return _vector_norm(x, 2 if order is None else order, axes[0], keep)
    if order in (None, "fro"):
        return ops.sqrt(ops.sum(ops.square(x), axis=tuple(axes), keepdims=keep))
    if order in ("nuc", 2, -2):
        raise UnsupportedOperatorError(f"the norm {order!r} of matrices, by singular values; use 'fro', 1 or inf")
    across, along = (axes[0], axes[1]) if abs(order) == 1 else (axes[1], axes[0])
    sums = ops.sum(ops.abs(x), axis=across, keepdims=True)
    y = (ops.max if order > 0 else ops.min)(sums, axis=along, keepdims=True)
    return y if keep else ops.squeeze(y, tuple(axes))


def _vector_norm(x: Any, order: Any, axis: int, keep: bool) -> Any:
    size = ops.abs(x)
    if order == 0:
        return ops.sum(ops.cast(ops.not_equal(x, 0), x.dtype), axis=axis, keepdims=keep)
    if abs(order) == math.inf:
        return (ops.max if order > 0 else ops.min)(size, axis=axis, keepdims=keep)
    if order == 1:
        return ops.sum(size, axis=axis, keepdims=keep)
    if order == 2:
        return ops.sqrt(ops.sum(ops.square(x), axis=axis, keepdims=keep))
    return ops.power(ops.sum(ops.power(size, float(order)), axis=axis, keepdims=keep), 1 / order)


def normalize(own: Any, x: Any) -> Any:
    axes = _axes(own.axis, x)
    least = keras.backend.epsilon() if own.epsilon is None else own.epsilon
    if own.order == 2:
        power = ops.sum(ops.square(x), axis=axes, keepdims=True)
        return x * ops.rsqrt(ops.maximum(power, np.float32(least) ** 2))
    size = ops.power(ops.sum(ops.power(ops.abs(x), float(own.order)), axis=axes, keepdims=True), 1 / own.order)
    return x / ops.maximum(size, np.float32(least))


def difference(own: Any, x: Any) -> Any:
    axis = own.axis % len(x.shape)
    for _ in range(own.n):
        late, early = ([slice(None)] * len(x.shape) for _ in range(2))
        late[axis], early[axis] = slice(1, None), slice(None, -1)
        x = ops.subtract(x[tuple(late)], x[tuple(early)])
    return x


def trapezoid(own: Any, y: Any) -> Any:
    axis, step = own.axis % len(y.shape), own.dx
    if own.x is not None:
        step = ops.diff(own.x, axis=-1)
        step = (
            step if len(own.x.shape) > 1 else ops.reshape(step, [-1 if i == axis else 1 for i in range(len(y.shape))])
        )
    late, early = ([slice(None)] * len(y.shape) for _ in range(2))
    late[axis], early[axis] = slice(1, None), slice(None, -1)
    return ops.sum((y[tuple(late)] + y[tuple(early)]) * step * 0.5, axis=axis)


def corrcoef(own: Any, x: Any) -> Any:
    rest = x - ops.mean(x, axis=-1, keepdims=True)
    size = ops.sqrt(ops.sum(ops.square(rest), axis=-1, keepdims=True))
    rest = rest / size
    return ops.clip(ops.matmul(rest, ops.transpose(rest)), -1.0, 1.0)


def sparsemax(own: Any, x: Any) -> Any:
    """As Keras 3 computes it, on every backend: its threshold is of the sum of all sums inside, where Martins and
    Astudillo, From softmax to sparsemax, 2016, have the last one."""
    axis = own.axis % len(x.shape)
    order = [*(i for i in range(len(x.shape)) if i != axis), axis]
    rows = ops.transpose(x, order)
    ranked = ops.top_k(rows, rows.shape[-1])[0]
    sums, places = ops.cumsum(ranked, axis=-1), np.arange(1, rows.shape[-1] + 1, dtype=np.float32)
    inside = ops.cast(ranked * places + 1.0 > sums, "float32")
    count = ops.sum(inside, axis=-1, keepdims=True)
    threshold = (ops.sum(sums * inside, axis=-1, keepdims=True) - 1.0) / count
    return ops.transpose(ops.maximum(rows - threshold, 0.0), [order.index(i) for i in range(len(order))])


def top_k(g: Emitter, call: Call) -> Sequence[Tensor]:
    x = call.input()
    return _ranked(g, x, int(call.layer.k))


def _ranked(g: Emitter, x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of the last axis, the largest first, and where they are."""
    count, shape = g.builder.add(constant(np.array(k, np.int32), f"{g.place}/k")), (*x.shape[:-1], k)
    outputs = [Tensor(f"{g.place}/{name}_{g.named}", kind, shape) for name, kind in (("top", x.type), ("at", "INT32"))]
    g.named += 1
    values, at = g.builder.node("TOPK_V2", [g.builder.add(x), count], outputs)
    return values, at


def _sorted(which: int) -> Callable[[Emitter, Call], Tensor]:
    """The smallest first: the largest of the negative values. ``which``: 0 for values, 1 for where they are."""

    def run(g: Emitter, call: Call) -> Tensor:
        x, axis = call.input(), call.layer.axis
        x, axis = (g.reshape(x, (x.size,)), 0) if axis is None else (x, axis % len(x.shape))

        def each(rows: Tensor) -> Tensor:
            found = _ranked(g, g.unary("NEG", rows), rows.shape[-1])
            return found[1] if which else g.unary("NEG", found[0])

        return g.along_last(x, [axis], each)

    return run


def in_top_k(own: Any, targets: Any, x: Any) -> Any:
    """Whether fewer than k are greater."""
    own_value = ops.take_along_axis(x, ops.expand_dims(ops.cast(targets, "int32"), -1), axis=-1)
    return ops.sum(ops.cast(x > own_value, "int32"), axis=-1) < own.k


def search(x: Any, edges: Any, right: bool) -> Any:
    """How many of the rising edges are below every element of x, or not above it."""
    line = ops.expand_dims(x, -1)
    return ops.sum(ops.cast(ops.less_equal(edges, line) if right else ops.less(edges, line), "int32"), axis=-1)


def search_sorted(own: Any, edges: Any, x: Any) -> Any:
    if len(edges.shape) != 1:
        raise UnsupportedOperatorError("several rows of sorted values; search each of them")
    return search(x, edges, own.side == "right")


def bincount(own: Any, x: Any) -> Any:
    if own.sparse:
        raise UnsupportedOperatorError("a sparse result; leave sparse out")
    if own.minlength < 1:
        raise UnsupportedOperatorError("as many bins as the largest value asks for; give minlength, above all values")
    hot = ops.one_hot(x, own.minlength, dtype="int32")
    if own.weights is None:
        return ops.sum(hot, axis=-2)
    weights = ops.convert_to_tensor(own.weights)
    return ops.sum(ops.cast(hot, weights.dtype) * ops.expand_dims(weights, -1), axis=-2)


def is_in(own: Any, x: Any, tests: Any) -> Any:
    found = ops.any(ops.equal(ops.expand_dims(x, -1), ops.reshape(tests, (-1,))), axis=-1)
    return ops.logical_not(found) if own.invert else found


def segments(combine: str, neutral: float) -> Callable[..., Any]:
    """Rows by segment: for sums by a product with a matrix of ones, for others over rows that are hidden elsewhere."""

    def run(own: Any, data: Any, ids: Any) -> Any:
        if own.num_segments is None:
            raise UnsupportedOperatorError("as many segments as the largest id asks for; give num_segments")
        ids = ops.convert_to_tensor(ids)
        hot = ops.equal(ops.expand_dims(np.arange(own.num_segments, dtype=np.int32), 1), ops.cast(ids, "int32"))
        flat = ops.reshape(data, (data.shape[0], -1))
        if combine == "sum":
            y = ops.matmul(ops.cast(hot, data.dtype), flat)
        else:
            kind = keras.backend.standardize_dtype(data.dtype)
            value = np.clip(neutral, np.iinfo(kind).min, np.iinfo(kind).max) if "int" in kind else np.float32(neutral)
            shown = ops.where(ops.expand_dims(hot, -1), ops.expand_dims(flat, 0), np.asarray(value, kind))
            y = getattr(ops, combine)(shown, axis=1)
        return ops.reshape(y, (own.num_segments, *data.shape[1:]))

    return run


def multi_hot(own: Any, x: Any) -> Any:
    axis = -1 if len(x.shape) <= 1 else -2
    return ops.max(ops.one_hot(x, own.num_classes, dtype=own.dtype or "float32"), axis=axis)


def unravel(own: Any, x: Any) -> Any:
    """Indices of rows, columns and so on; x may count from the end."""
    size = math.prod(own.shape)
    x, results = ops.mod(x, size), []
    for extent in reversed(own.shape):
        results.append(ops.mod(x, extent))
        x = ops.floor_divide(x, extent)
    return tuple(reversed(results))


def _position(op: str) -> Callable[[Emitter, Call], Tensor]:
    def run(g: Emitter, call: Call) -> Tensor:
        x, axis = call.input(), call.layer.axis
        x, axis = (g.reshape(x, (x.size,)), 0) if axis is None else (x, axis % len(x.shape))
        x = g.cast(x, "INT32") if x.type == "BOOL" else x
        y = g.emit(
            op, [x, np.array(axis, np.int32)], (*x.shape[:axis], *x.shape[axis + 1 :]), "INT32", output_type="INT32"
        )
        return g.reshape(g.cast(y, call.type), call.shape)

    return run


def _truth(op: str) -> Callable[[Emitter, Call], Tensor]:
    """Whether all or any elements over some axes are not zero."""

    def run(g: Emitter, call: Call) -> Tensor:
        x = call.input()
        shown = x if x.type == "BOOL" else g.binary("NOT_EQUAL", x, np.array(0, x.dtype), "BOOL")
        axes = np.array(dimensions(call.layer.axis, x), np.int32)
        return g.emit(op, [shown, axes], call.shape, keep_dims=bool(call.layer.keepdims))

    return run


COMPOSED: dict[str, Callable[..., Any]] = {
    "Argpartition": lambda own, x: ops.argsort(x, axis=own.axis),
    "Average": average,
    "Bincount": bincount,
    "Corrcoef": corrcoef,
    "CountNonzero": count_nonzero,
    "Diff": difference,
    "Digitize": lambda own, x, bins: search(x, bins, True),
    "InTopK": in_top_k,
    "IsIn": is_in,
    "Logsumexp": logsumexp,
    "Median": _quantiles(False),
    "Moments": lambda own, x: (
        ops.mean(x, axis=own.axes, keepdims=own.keepdims), ops.var(x, axis=own.axes, keepdims=own.keepdims)
    ),
    "MultiHot": multi_hot,
    "Nanargmax": nan_position("argmax", -np.inf),
    "Nanargmin": nan_position("argmin", np.inf),
    "Nancumprod": lambda own, x: ops.cumprod(_where_number(x, 1), axis=own.axis),
    "Nancumsum": lambda own, x: ops.cumsum(_where_number(x, 0), axis=own.axis),
    "Nanmax": nan_extreme("max", -np.inf),
    "Nanmean": nan_mean,
    "Nanmedian": _quantiles(True),
    "Nanmin": nan_extreme("min", np.inf),
    "Nanpercentile": _quantiles(True, percent=True),
    "Nanprod": lambda own, x: ops.prod(_where_number(x, 1), axis=own.axis, keepdims=own.keepdims),
    "Nanquantile": _quantiles(True),
    "Nanstd": lambda own, x: ops.sqrt(ops.nanvar(x, axis=own.axis, keepdims=own.keepdims)),
    "Nansum": lambda own, x: ops.sum(_where_number(x, 0), axis=own.axis, keepdims=own.keepdims),
    "Nanvar": nan_variance,
    "Norm": norm,
    "Normalize": normalize,
    "Percentile": _quantiles(False, percent=True),
    "Ptp": lambda own, x: (
        ops.max(x, axis=own.axis, keepdims=own.keepdims) - ops.min(x, axis=own.axis, keepdims=own.keepdims)
    ),
    "Quantile": _quantiles(False),
    "SearchSorted": search_sorted,
    "SegmentMax": segments("max", -np.inf),
    "SegmentMin": segments("min", np.inf),
    "SegmentProd": segments("prod", 1),
    "SegmentSum": segments("sum", 0),
    "Sparsemax": sparsemax,
    "Std": lambda own, x: ops.sqrt(ops.var(x, axis=own.axis, keepdims=own.keepdims)),
    "Trapezoid": trapezoid,
    "UnravelIndex": unravel,
}  # fmt: skip

IMPORTERS: dict[str, Any] = {
    **{f"ops.{name}": composed(function) for name, function in COMPOSED.items()},
    "ops.All": _truth("REDUCE_ALL"),
    "ops.Any": _truth("REDUCE_ANY"),
    "ops.Argmax": _position("ARG_MAX"),
    "ops.Argmin": _position("ARG_MIN"),
    "ops.Argsort": _sorted(1),
    "ops.Sort": _sorted(0),
    "ops.TopK": top_k,
}
