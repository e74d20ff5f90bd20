"""Operations that move, cut, join and repeat elements: made of others of ``keras.ops``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import keras
import numpy as np

from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.keras.call import Call, composed
from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import DTYPES, Tensor

ops = keras.ops


def _index(rank: int, axis: int, part: Any) -> tuple[Any, ...]:
    return tuple(part if i == axis else slice(None) for i in range(rank))


def append(own: Any, a: Any, b: Any) -> Any:
    if own.axis is None:
        return ops.concatenate([ops.reshape(a, (-1,)), ops.reshape(b, (-1,))])
    return ops.concatenate([a, b], axis=own.axis)


def array_split(own: Any, x: Any) -> Any:
    axis, count = own.axis % len(x.shape), own.indices_or_sections
    if not isinstance(count, int):
        return ops.split(x, count, axis=axis)
    each, more = divmod(x.shape[axis], count)
    ends = np.cumsum([0] + [each + (i < more) for i in range(count)])
    return [x[_index(len(x.shape), axis, slice(int(a), int(b)))] for a, b in pairwise(ends)]


def _split(axis: int) -> Callable[[Any, Any], Any]:
    def run(own: Any, x: Any) -> Any:
        return ops.split(x, own.indices_or_sections, axis=0 if len(x.shape) == 1 else axis)

    return run


def _stacked(rank: int, axis: int) -> Callable[[Any, Any], Any]:
    """vstack, hstack and dstack: joined along an axis, each with at least so many dimensions."""

    def shaped(x: Any) -> Any:
        if rank == 3 and len(x.shape) < 3:
            return ops.reshape(x, ((1, *x.shape, 1) if len(x.shape) == 1 else (*x.shape, 1)))
        return ops.reshape(x, (1,) * (rank - len(x.shape)) + tuple(x.shape))

    def run(own: Any, xs: Any) -> Any:
        parts = [shaped(x) for x in xs]
        return ops.concatenate(parts, axis=0 if len(parts[0].shape) == 1 else axis)

    return run


def _band(shape: Sequence[int], k: int, lower: bool) -> Any:
    rows, columns = np.indices(shape[-2:])
    return (columns - rows <= k) if lower else (columns - rows >= k)


def _triangle(lower: bool) -> Callable[[Any, Any], Any]:
    def run(own: Any, x: Any) -> Any:
        return ops.where(_band(x.shape, own.k, lower), x, np.zeros((), keras.backend.standardize_dtype(x.dtype)))

    return run


def diagonal(own: Any, x: Any, axes: tuple[int, int] | None = None, offset: int | None = None) -> Any:
    """One element of every row, in a dimension behind all others."""
    first, second = axes or (own.axis1, own.axis2)
    offset = own.offset if offset is None else offset
    rank = len(x.shape)
    pair = first % rank, second % rank
    order = [*(i for i in range(rank) if i not in pair), *pair]
    moved = ops.transpose(x, order)
    rows, columns = moved.shape[-2:]
    at = [(i, i + offset) for i in range(rows) if 0 <= i + offset < columns]
    flat = ops.reshape(moved, (*moved.shape[:-2], rows * columns))
    return ops.take(flat, np.array([i * columns + j for i, j in at], np.int32), axis=-1)


def diag(own: Any, x: Any) -> Any:
    """A matrix with x as a diagonal, or the diagonal of a matrix."""
    return diagonal(own, x, (0, 1), own.k) if len(x.shape) == 2 else diagflat(own, x)


def diagflat(own: Any, x: Any) -> Any:
    """x times an identity matrix, with rows or columns of zeros for a diagonal beside the main one."""
    flat = ops.reshape(x, (-1,))
    size = flat.shape[0]
    square = ops.where(np.eye(size, dtype=np.bool_), flat, np.zeros((), keras.backend.standardize_dtype(x.dtype)))
    return ops.pad(square, ((max(-own.k, 0), max(own.k, 0)), (max(own.k, 0), max(-own.k, 0))))


def meshgrid(own: Any, *xs: Any) -> Any:
    places = list(range(len(xs)))
    if own.indexing == "xy" and len(xs) > 1:
        places[:2] = [1, 0]
    shape = [0] * len(xs)
    for x, place in zip(xs, places, strict=True):
        shape[place] = math.prod(x.shape)
    lines = [
        ops.reshape(x, [-1 if i == place else 1 for i in range(len(xs))]) for x, place in zip(xs, places, strict=True)
    ]
    return [ops.broadcast_to(line, shape) for line in lines]


def moveaxis(own: Any, x: Any) -> Any:
    rank = len(x.shape)
    source, target = ([int(a) % rank for a in np.atleast_1d(np.asarray(v))] for v in (own.source, own.destination))
    order = [i for i in range(rank) if i not in source]
    for place, axis in sorted(zip(target, source, strict=True)):
        order.insert(place, axis)
    return ops.transpose(x, order)


def roll(own: Any, x: Any) -> Any:
    if own.axis is None:
        shift = sum(own.shift) if isinstance(own.shift, Sequence) else own.shift
        return ops.reshape(_rolled(ops.reshape(x, (-1,)), shift, 0), x.shape)
    axes, shifts = np.broadcast_arrays(np.atleast_1d(np.asarray(own.axis)), np.atleast_1d(np.asarray(own.shift)))
    for axis, shift in zip(axes.tolist(), shifts.tolist(), strict=True):
        x = _rolled(x, shift, axis % len(x.shape))
    return x


def _rolled(x: Any, shift: int, axis: int) -> Any:
    size = x.shape[axis]
    shift %= max(size, 1)
    if not shift:
        return x
    rank = len(x.shape)
    return ops.concatenate(
        [x[_index(rank, axis, slice(size - shift, None))], x[_index(rank, axis, slice(None, size - shift))]], axis=axis
    )


def rot90(own: Any, x: Any) -> Any:
    a, b = (int(axis) % len(x.shape) for axis in own.axes)
    turns = own.k % 4
    if turns == 2:
        return ops.flip(ops.flip(x, a), b)
    if turns == 1:
        return ops.swapaxes(ops.flip(x, b), a, b)
    return ops.flip(ops.swapaxes(x, a, b), b) if turns else x


def slices(own: Any, x: Any, starts: Any) -> Any:
    """From the start to the shape; where that is known at run time only, by indices."""
    shape = [n - 0 if d == -1 else d for n, d in zip(x.shape, own.shape, strict=True)]
    if not isinstance(starts, keras.KerasTensor) and not any(isinstance(s, keras.KerasTensor) for s in starts):
        begin = np.asarray(keras.ops.convert_to_numpy(starts) if keras.ops.is_tensor(starts) else starts)
        return x[tuple(slice(int(b), int(b) + n) for b, n in zip(begin, shape, strict=True))]
    for axis, size in enumerate(shape):
        start = ops.clip(ops.cast(starts[axis], "int32"), 0, x.shape[axis] - size)
        x = ops.take(x, start + np.arange(size, dtype=np.int32), axis=axis)
    return x


def slice_update(g: Emitter, call: Call) -> Tensor:
    x, starts, updates = call.argument(0, "inputs"), call.argument(1, "start_indices"), call.argument(2, "updates")
    if isinstance(starts, list | tuple):
        call.need(not any(isinstance(s, Tensor) for s in starts), "starts that are several tensors; stack them")
        starts = np.array([int(s) for s in starts], np.int32)
    start = g.cast(starts, "INT32") if isinstance(starts, Tensor) else np.asarray(starts, np.int32)
    return g.emit("DYNAMIC_UPDATE_SLICE", [x, updates, start], call.shape, call.type)


def _flat_places(indices: Any, shape: Sequence[int]) -> Any:
    """Which rows of the flat result indices [..., depth] mean, and how many elements each has."""
    depth = indices.shape[-1]
    steps = np.array([math.prod(shape[i + 1 : depth]) for i in range(depth)], np.int32)
    places = ops.sum(ops.cast(indices, "int32") * steps, axis=-1)
    return ops.reshape(places, (-1,)), math.prod(shape[depth:])


def scatter(own: Any, indices: Any, values: Any) -> Any:
    """Rows are added up where indices repeat: a product with a matrix of ones."""
    shape, indices = tuple(own.shape), ops.convert_to_tensor(indices)
    places, width = _flat_places(indices, shape)
    rows = math.prod(shape) // width
    hot = ops.equal(np.arange(rows, dtype=np.int32)[:, None], places)
    y = ops.matmul(ops.cast(hot, values.dtype), ops.reshape(values, (-1, width)))
    return ops.cast(ops.reshape(y, shape), values.dtype)


def scatter_update(own: Any, x: Any, indices: Any, updates: Any) -> Any:
    """Every row takes the last update that names it, or adds all to it, and so on."""
    indices = ops.convert_to_tensor(indices)
    places, width = _flat_places(indices, x.shape)
    flat = ops.reshape(x, (-1, width))
    updates = ops.reshape(updates, (-1, width))
    hot = ops.equal(np.arange(flat.shape[0], dtype=np.int32)[:, None], places)  # [rows, updates]
    if own.reduction == "add":
        y = flat + ops.cast(ops.matmul(ops.cast(hot, updates.dtype), updates), flat.dtype)
    elif own.reduction is None:
        number = np.arange(1, updates.shape[0] + 1, dtype=np.int32)
        last = ops.max(ops.where(hot, number, np.int32(0)), axis=-1)
        taken = ops.take(updates, ops.maximum(last - 1, 0), axis=0)
        y = ops.where(ops.expand_dims(last > 0, -1), taken, flat)
    elif own.reduction in ("max", "min"):
        combine = getattr(ops, own.reduction)
        shown = ops.where(ops.expand_dims(hot, -1), ops.expand_dims(updates, 0), ops.expand_dims(flat, 1))
        y = combine(ops.concatenate([shown, ops.expand_dims(flat, 1)], axis=1), axis=1)
    else:
        raise UnsupportedOperatorError(f"reduction {own.reduction!r}; use None, add, max or min")
    return ops.reshape(y, x.shape)


def space_to_depth(own: Any, x: Any) -> Any:
    size, first = own.block_size, own.data_format == "channels_first"
    x = ops.transpose(x, (0, 2, 3, 1)) if first else x
    n, h, w, c = x.shape
    y = ops.transpose(ops.reshape(x, (n, h // size, size, w // size, size, c)), (0, 1, 3, 2, 4, 5))
    y = ops.reshape(y, (n, h // size, w // size, size * size * c))
    return ops.transpose(y, (0, 3, 1, 2)) if first else y


def depth_to_space(own: Any, x: Any) -> Any:
    size, first = own.block_size, own.data_format == "channels_first"
    x = ops.transpose(x, (0, 2, 3, 1)) if first else x
    n, h, w, c = x.shape
    y = ops.transpose(ops.reshape(x, (n, h, w, size, size, c // size**2)), (0, 1, 3, 2, 4, 5))
    y = ops.reshape(y, (n, h * size, w * size, c // size**2))
    return ops.transpose(y, (0, 3, 1, 2)) if first else y


def extract_sequences(own: Any, x: Any) -> Any:
    count = 1 + (x.shape[-1] - own.sequence_length) // own.sequence_stride
    at = np.arange(count)[:, None] * own.sequence_stride + np.arange(own.sequence_length)
    return ops.take(x, at.astype(np.int32), axis=-1)


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))


def _patches(own: Any, size: tuple[int, int]) -> Any:
    """Where the elements of every patch lie in a padded image, [kernel, patches] each for rows and columns, and the
    padded extents."""
    kernel, dilation, padding, stride = (_pair(v) for v in (own.kernel_size, own.dilation, own.padding, own.stride))
    tables, extents = [], [n + 2 * p for n, p in zip(size, padding, strict=True)]
    for n, k, d, s in zip(extents, kernel, dilation, stride, strict=True):
        count = (n - d * (k - 1) - 1) // s + 1
        tables.append(np.arange(k)[:, None] * d + np.arange(count) * s)
    rows, columns = tables
    at = rows[:, None, :, None] * extents[1] + columns[None, :, None, :]
    return at.reshape(math.prod(kernel), -1).astype(np.int32), extents, padding


def unfold(own: Any, x: Any) -> Any:
    """[n, c, h, w] as [n, c * kernel, patches]."""
    n, c, h, w = x.shape
    at, extents, padding = _patches(own, (h, w))
    x = ops.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    y = ops.take(ops.reshape(x, (n, c, math.prod(extents))), at, axis=2)
    return ops.reshape(y, (n, c * at.shape[0], at.shape[1]))


def fold(own: Any, x: Any) -> Any:
    """[n, c * kernel, patches] as [n, c, h, w]: what falls on one place is added up."""
    size = _pair(own.output_size)
    at, extents, padding = _patches(own, size)
    n, c = x.shape[0], x.shape[1] // at.shape[0]
    table = np.zeros((at.size, math.prod(extents)), np.float32)
    table[np.arange(at.size), at.reshape(-1)] = 1
    y = ops.matmul(ops.reshape(x, (n * c, at.size)), table)
    y = ops.reshape(y, (n, c, *extents))
    return y[:, :, padding[0] : padding[0] + size[0], padding[1] : padding[1] + size[1]]


def vander(own: Any, x: Any) -> Any:
    count = x.shape[0] if own.N is None else own.N
    powers = [ops.ones_like(x)]
    for _ in range(count - 1):
        powers.append(powers[-1] * x)
    return ops.stack(powers if own.increasing else powers[::-1], axis=-1)


def repeat(g: Emitter, call: Call) -> Tensor:
    x, axis = call.input(), call.layer.axis
    times = call.layer.repeats
    call.need(not isinstance(times, Tensor | keras.KerasTensor), "repeats that are an input; give them as numbers")
    times = np.asarray(keras.ops.convert_to_numpy(times) if keras.ops.is_tensor(times) else times)
    x, axis = (g.reshape(x, (x.size,)), 0) if axis is None else (x, axis % len(x.shape))
    return g.gather(x, np.repeat(np.arange(x.shape[axis]), times), axis)


def tile(g: Emitter, call: Call) -> Tensor:
    x, times = call.input(), np.atleast_1d(np.asarray(call.layer.repeats)).tolist()
    rank = max(len(times), len(x.shape))
    x = g.reshape(x, (1,) * (rank - len(x.shape)) + tuple(x.shape))
    counts = [1] * (rank - len(times)) + times
    return x if set(counts) == {1} else g.emit("TILE", [x, np.array(counts, np.int32)], call.shape)


def rearrange(own: Any, x: Any, pattern: str, **extents: int) -> Any:
    """By a pattern of einops, such as "a (b c) -> b a c": dimensions in brackets are one."""
    left, right = (re.findall(r"\([^)]*\)|\S+", side) for side in pattern.split("->"))
    groups = [part.strip("()").split() for part in left]
    sizes = dict(extents)
    for names, size in zip(groups, x.shape, strict=True):
        known = math.prod(sizes[name] for name in names if name in sizes)
        sizes.update({name: size // known for name in names if name not in sizes})
    order = [name for names in groups for name in names]
    results = [part.strip("()").split() for part in right]
    flat = [name for names in results for name in names]
    if sorted(flat) != sorted(order):
        raise UnsupportedOperatorError(f"the pattern {pattern!r}; name every dimension on both sides")
    y = ops.transpose(ops.reshape(x, [sizes[name] for name in order]), [order.index(name) for name in flat])
    return ops.reshape(y, [math.prod(sizes[name] for name in names) for names in results])


def view(g: Emitter, call: Call) -> Tensor:
    x = call.input()
    call.need(x.dtype.itemsize == DTYPES[call.type].itemsize, "a view in a type of another size")
    return g.emit("BITCAST", [x], x.shape, call.type)


def linspace(own: Any, start: Any, stop: Any) -> Any:
    if own.retstep:
        raise UnsupportedOperatorError("retstep; compute the step beside")
    count = own.num
    shares = np.arange(count, dtype=np.float32) / np.float32(max(count - 1 if own.endpoint else count, 1))
    axis = own.axis % (len(start.shape) + 1)
    start, stop = (ops.expand_dims(v, axis) for v in (start, stop))
    shares = shares.reshape([-1 if i == axis else 1 for i in range(len(start.shape))])
    return start * (1 - shares) + stop * shares


def full_like(own: Any, x: Any, value: Any) -> Any:
    kind = keras.backend.standardize_dtype(own.dtype or x.dtype)
    return ops.broadcast_to(ops.cast(ops.convert_to_tensor(value), kind), x.shape)


def _filled(value: int) -> Callable[[Any, Any], Any]:
    return lambda own, x: np.full(x.shape, value, keras.backend.standardize_dtype(own.dtype or x.dtype))


COMPOSED: dict[str, Callable[..., Any]] = {
    "Append": append,
    "ArraySplit": array_split,
    "DepthToSpace": depth_to_space,
    "Diag": diag,
    "Diagflat": diagflat,
    "Diagonal": diagonal,
    "Dsplit": _split(2),
    "Dstack": _stacked(3, 2),
    "EmptyLike": _filled(0),
    "ExtractSequences": extract_sequences,
    "Fliplr": lambda own, x: ops.flip(x, 1),
    "Flipud": lambda own, x: ops.flip(x, 0),
    "Fold": fold,
    "FullLike": full_like,
    "Hsplit": _split(1),
    "Hstack": _stacked(1, 1),
    "Linspace": linspace,
    "Meshgrid": meshgrid,
    "Moveaxis": moveaxis,
    "Ndim": lambda own, x: np.int32(len(x.shape)),
    "OnesLike": _filled(1),
    "Rearrange": rearrange,
    "Roll": roll,
    "Rot90": rot90,
    "Scatter": scatter,
    "ScatterUpdate": scatter_update,
    "Size": lambda own, x: np.int32(math.prod(x.shape)),
    "Slice": slices,
    "SpaceToDepth": space_to_depth,
    "Trace": lambda own, x: ops.sum(ops.diagonal(x, own.offset, own.axis1, own.axis2), axis=-1),
    "Tril": _triangle(True),
    "Triu": _triangle(False),
    "Unfold": unfold,
    "Unstack": lambda own, x: [ops.squeeze(part, own.axis) for part in ops.split(x, x.shape[own.axis], axis=own.axis)],
    "Vander": vander,
    "Vsplit": _split(0),
    "Vstack": _stacked(2, 0),
    "ZerosLike": _filled(0),
}

IMPORTERS: dict[str, Any] = {
    **{f"ops.{name}": composed(function) for name, function in COMPOSED.items()},
    "ops.Repeat": repeat,
    "ops.SliceUpdate": slice_update,
    "ops.Tile": tile,
    "ops.View": view,
}
