"""Elements picked and put by numbers that may be known at run time only: TFLite's forms of Gather, Scatter and TopK."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from twinfer.converter.emit.emitter import Emitter, Operand, Shape, constant
from twinfer.runtime.errors import UnsupportedOperatorError
from twinfer.runtime.graph import Tensor

#: What puts elements of equal places together -> the operator of their slices, and that with what was there before.
SEGMENTS = {
    "mul": ("UNSORTED_SEGMENT_PROD", "MUL"),
    "max": ("UNSORTED_SEGMENT_MAX", "MAXIMUM"),
    "min": ("UNSORTED_SEGMENT_MIN", "MINIMUM"),
}

#: What is done with elements -> types in which TFLite does it; smaller ones are cast to INT32 and back.
TYPES = {"none": ("FLOAT32", "INT32", "INT64", "INT8", "UINT8", "BOOL"), "add": ("FLOAT32", "INT32", "INT64")}


def top_k(g: Emitter, x: Tensor, k: int, axis: int, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The k greatest (least) elements along an axis in falling (rising) order, and their places, INT32. Of equal ones
    the first counts."""
    order = [*(i for i in range(len(x.shape)) if i != axis), axis]
    back = [order.index(i) for i in range(len(order))]
    kind, x = x.type, g.transpose(x, order)
    if not largest and kind in ("INT8", "UINT8", "INT16", "BOOL"):
        x = g.cast(x, "INT32")
    source = x if largest else _turned(g, x)
    shape = (*x.shape[:-1], k)
    values, places = g.emit_all("TOPK_V2", [source, np.array(k, np.int32)], [shape, shape], (source.type, "INT32"))
    values = values if largest else _turned(g, values)
    return g.transpose(g.cast(values, kind), back), g.transpose(places, back)


def _turned(g: Emitter, x: Tensor) -> Tensor:
    """The same values in reverse order of size: -x, of integers -1 - x, which has no overflow."""
    if x.type == "FLOAT32":
        return g.unary("NEG", x)
    return g.binary("SUB", np.array(-1, x.dtype), x)


def gather_nd(g: Emitter, x: Tensor, indices: Tensor, batch: int = 0) -> Tensor:
    """Slices by rows of k numbers: [..., k] of the dimensions behind ``batch`` ones that x and indices share."""
    depth = indices.shape[-1]
    at = g.from_front(indices, x.shape[batch : batch + depth])
    head, tail = x.shape[:batch], x.shape[batch + depth :]
    if at.data is not None:  # all that is picked along is one dimension
        along = x.shape[: batch + depth]
        rest = [np.arange(n).reshape(-1, *[1] * (len(at.shape) - 2 - i)) for i, n in enumerate(head)]
        flat = np.ravel_multi_index(tuple(np.broadcast_arrays(*rest, *np.moveaxis(at.data, -1, 0))), along)
        return g.gather(g.reshape(x, (math.prod(along), *tail)), np.asarray(flat), 0)
    shape = (*at.shape[:-1], *tail)
    if depth == 1 and batch:
        numbers = g.reshape(at, at.shape[:-1])
        return g.emit("GATHER", [x, numbers], shape, axis=batch, batch_dims=batch)
    if batch:
        count = math.prod(head)
        x = g.reshape(x, (count, *x.shape[batch:]))
        at = g.reshape(at, (count, -(-at.size // max(count * depth, 1)), depth))
        batches = np.arange(count).reshape(-1, 1, 1).repeat(at.shape[1], 1).astype(at.dtype)
        at = g.concat([constant(batches), at], 2)
        return g.reshape(g.emit("GATHER_ND", [x, at], (*at.shape[:-1], *tail)), shape)
    return g.emit("GATHER_ND", [x, at], shape)


def scatter_nd(
    g: Emitter, x: Tensor, indices: Tensor, updates: Tensor, how: str = "none", *, front: bool = False
) -> Tensor:
    """x with slices at rows of k numbers, [..., k], replaced by those of updates, or put together with them.

    ``how``: none, add, mul, max or min. With none only updates that are all one number may name a place twice.
    """
    depth = indices.shape[-1]
    at = g.from_front(indices, x.shape[:depth])
    if not updates.size:
        return x
    if how == "none":
        if at.data is not None:
            return _replaced(g, x, np.asarray(at.data).reshape(-1, depth), updates)
        if math.prod(at.shape[:-1]) == 1:
            begin = g.cast(g.reshape(at, (depth,)), "INT32")
            begin = (
                g.concat([begin, constant(np.zeros(len(x.shape) - depth, np.int32))], 0) if x.shape[depth:] else begin
            )
            return _box(g, x, g.reshape(updates, (*[1] * depth, *x.shape[depth:])), begin)
    if x.type not in TYPES.get(how, ("FLOAT32", "INT32")):
        if x.type in ("INT64", "BOOL"):
            raise UnsupportedOperatorError(f"the reduction {how} in {x.type}; cast to INT32")
        return g.cast(scatter_nd(g, g.cast(x, "INT32"), at, g.cast(updates, "INT32"), how, front=True), x.type)
    at = g.cast(at, "INT32")
    if how in SEGMENTS:
        return _segments(g, x, at, updates, how)
    if how == "none" and updates.data is not None and (updates.data == updates.data.flat[0]).all():
        moved: Operand = np.array(updates.data.flat[0])
    else:
        moved = g.emit("SCATTER_ND", [at, updates, np.array(x.shape, np.int32)], x.shape, updates.type)
    if how == "add":
        return g.binary("ADD", x, moved)
    touched = _touched(g, at, x.shape[:depth])
    touched = g.reshape(touched, (*touched.shape, *[1] * len(x.shape[depth:])))
    return g.emit("SELECT_V2", [touched, moved, x], x.shape, x.type)


def _touched(g: Emitter, at: Tensor, shape: Shape) -> Tensor:
    """Which slices the numbers name."""
    return g.emit("SCATTER_ND", [at, np.ones(at.shape[:-1], np.bool_), np.array(shape, np.int32)], shape, "BOOL")


def _segments(g: Emitter, x: Tensor, at: Tensor, updates: Tensor, how: str) -> Tensor:
    """Slices of one number put together, and then with those of x."""
    depth = at.shape[-1]
    shape, tail = x.shape[:depth], x.shape[depth:]
    count, rows = math.prod(at.shape[:-1]), math.prod(shape)
    steps = np.array([math.prod(shape[i + 1 :]) for i in range(depth)], np.int32)
    if at.data is not None:
        numbers: Operand = np.asarray((np.asarray(at.data) * steps).sum(-1), np.int32).reshape(-1)
    else:
        each = g.binary("MUL", at, steps) if (steps != 1).any() else at
        if depth > 1:
            each = g.emit("SUM", [each, np.array([len(at.shape) - 1], np.int32)], at.shape[:-1], keep_dims=False)
        numbers = g.reshape(each, (count,))
    reduce, put = SEGMENTS[how]
    slices = g.reshape(updates, (count, *tail))
    found = g.emit(reduce, [slices, numbers, np.array(rows, np.int32)], (rows, *tail))
    return g.binary(put, x, g.reshape(found, x.shape))


def _replaced(g: Emitter, x: Tensor, at: np.ndarray, updates: Tensor) -> Tensor:
    """x with constant places [count, depth] replaced: a box that is written over, or each slice from the one or the
    other."""
    depth = at.shape[1]
    begin, end = at.min(0), at.max(0) + 1
    sizes = tuple(int(n) for n in end - begin)
    tail = x.shape[depth:]
    if math.prod(sizes) == len(at) and (at == np.indices(sizes).reshape(depth, -1).T + begin).all():
        place = np.array([*begin, *[0] * len(tail)], np.int32)
        return _box(g, x, g.reshape(updates, (*sizes, *tail)), constant(place))
    rows = math.prod(x.shape[:depth])
    g.budget.afford(4 * rows, "a table of its elements")
    table = np.arange(rows, dtype=np.int32)
    table[np.ravel_multi_index(tuple(at.T), x.shape[:depth])] = rows + np.arange(len(at))
    both = g.concat([g.reshape(x, (rows, *tail)), g.reshape(updates, (len(at), *tail))], 0)
    return g.reshape(g.gather(both, table, 0), x.shape)


def _box(g: Emitter, x: Tensor, updates: Tensor, begin: Tensor) -> Tensor:
    if updates.shape == x.shape:
        return updates
    return g.emit("DYNAMIC_UPDATE_SLICE", [x, updates, begin], x.shape, x.type)


def scatter_along(g: Emitter, x: Tensor, indices: Tensor, updates: Tensor, axis: int, how: str = "none") -> Tensor:
    """x with single elements replaced, or put together with others: each index says where along the axis, its own place
    says where along the other dimensions. ``how`` as in ``scatter_nd``."""
    at = g.from_front(indices, x.shape[axis])
    if not updates.size:
        return x
    whole = all(n == m for i, (n, m) in enumerate(zip(x.shape, at.shape, strict=True)) if i != axis)
    same = along_one(at, axis)
    if how == "none" and whole and same is not None:
        return _replaced_along(g, x, same, updates, axis)
    places = g.along_flat(at, x.shape, axis)
    line, at_line = g.reshape(x, (x.size,)), g.reshape(places, (at.size, 1))
    flat = scatter_nd(g, line, at_line, g.reshape(updates, (at.size,)), how, front=True)
    return g.reshape(flat, x.shape)


def _replaced_along(g: Emitter, x: Tensor, line: np.ndarray, updates: Tensor, axis: int) -> Tensor:
    """x with whole slices along an axis replaced."""
    if (np.diff(line) == 1).all():
        begin = np.zeros(len(x.shape), np.int32)
        begin[axis] = line[0]
        return _box(g, x, updates, constant(begin))
    table = np.arange(x.shape[axis], dtype=np.int32)
    table[line] = x.shape[axis] + np.arange(len(line))
    return g.gather(g.concat([x, updates], axis), table, axis)


def along_one(at: Tensor, axis: int) -> np.ndarray | None:
    """The numbers along an axis if they are constants, and the same at every place of the others; else None."""
    if at.data is None or not at.size:
        return None
    lines = np.moveaxis(np.asarray(at.data), axis, -1).reshape(-1, at.shape[axis])
    return np.asarray(lines[0]) if (lines == lines[0]).all() else None


def reverse_sequence(g: Emitter, x: Tensor, lengths: Tensor, sequence: int, batch: int) -> Tensor:
    """The first elements along a dimension backwards, as many as each batch has."""
    if lengths.data is None:
        return g.emit("REVERSE_SEQUENCE", [x, lengths], x.shape, seq_dim=sequence, batch_dim=batch)
    order = [batch, sequence, *(i for i in range(len(x.shape)) if i not in (batch, sequence))]
    count, extent = x.shape[batch], x.shape[sequence]
    places = np.broadcast_to(np.arange(extent), (count, extent))
    ends = np.asarray(lengths.data).reshape(-1, 1)
    table = np.where(places < ends, ends - 1 - places, places)
    if (ends == ends[:1]).all():
        return g.gather(x, table[0], sequence)
    table = table + extent * np.arange(count).reshape(-1, 1)
    y = g.transpose(x, order)
    y = g.gather(g.reshape(y, (count * extent, *y.shape[2:])), table.reshape(-1), 0)
    y = g.reshape(y, tuple(x.shape[i] for i in order))
    return g.transpose(y, [order.index(i) for i in range(len(order))])


def contiguous(numbers: Sequence[int]) -> range | None:
    """Numbers that rise by one as a range; None for others."""
    line = range(int(numbers[0]), int(numbers[0]) + len(numbers)) if len(numbers) else None
    return line if line is not None and list(line) == [int(i) for i in numbers] else None
