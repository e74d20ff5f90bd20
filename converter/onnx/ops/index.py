"""Operators that pick and put elements by numbers: Gather, Scatter, TopK, OneHot and their kin."""

from __future__ import annotations

import numpy as np

from twinfer.converter.emit import indexing
from twinfer.converter.emit.emitter import Emitter, Operand, constant
from twinfer.converter.onnx.node import NO_SIZE, Importer, OnnxNode, positive
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Tensor


def scatter(g: Emitter, node: OnnxNode) -> Tensor:
    """ScatterElements, along an axis, and ScatterND, by rows of numbers."""
    x, indices, updates = (node.input(i) for i in range(3))
    how = str(node.attribute("reduction", "none"))
    if node.op == "ScatterND":
        return indexing.scatter_nd(g, x, indices, updates, how)
    if indices.shape != updates.shape:
        raise ModelError(f"{node}: indices {list(indices.shape)} and updates {list(updates.shape)} differ in shape")
    return indexing.scatter_along(g, x, indices, updates, node.axis(0), how)


def gather_nd(g: Emitter, node: OnnxNode) -> Tensor:
    return indexing.gather_nd(g, node.input(0), node.input(1), int(node.attribute("batch_dims", 0)))


def one_hot(g: Emitter, node: OnnxNode) -> Tensor:
    """Indices beyond the depth, on either side, give rows without a one, as in TFLite."""
    indices, depth, values = node.input(0), node.constant(1), node.input(2)
    indices = indices if indices.type in ("INT32", "INT64") else g.cast(indices, "INT32")
    count, rank = int(np.asarray(depth).reshape(-1)[0]), len(indices.shape)
    axis = positive(node, int(node.attribute("axis", -1)), rank + 1)
    ends = [g.part(values, (i,), (1,)) if values.data is None else constant(values.data[i : i + 1]) for i in (0, 1)]
    off, on = (g.reshape(end, ()) for end in ends)
    if indices.data is None:
        places: Operand = g.from_front(indices, count)
    else:
        places = np.where(indices.data < 0, indices.data + count, indices.data).astype(indices.dtype)
    inputs: list[Operand] = [places, np.array(count, np.int32), on, off]
    shape = (*indices.shape[:axis], count, *indices.shape[axis:])
    return g.emit("ONE_HOT", inputs, shape, values.type, axis=axis if axis < rank else -1)


def top_k(g: Emitter, node: OnnxNode) -> tuple[Tensor, Tensor]:
    """In order, whether or not the node asks for it."""
    x, axis = node.input(0), node.axis(-1)
    counts = node.constant(1)
    if counts is None or counts.size != 1:
        raise ModelError(f"{node}: K must be one number")
    k, extent = int(counts.reshape(())), x.shape[axis]
    if not 0 <= k <= extent:
        raise ModelError(f"{node}: there are no {k} of {extent} elements along axis {axis} of {list(x.shape)}")
    values, places = indexing.top_k(g, x, k, axis, bool(node.attribute("largest", 1)))
    return values, g.cast(places, "INT64")


def compress(g: Emitter, node: OnnxNode) -> Tensor:
    """The elements for which a constant is true, along an axis or of all in one line."""
    x, condition = node.input(0), node.input(1)
    why = f"its result {NO_SIZE}; multiply by a mask, use Where, or make its condition a constant"
    node.need(condition.data is not None, why)
    axis = 0 if node.attribute("axis", None) is None else node.axis(0)
    x = g.reshape(x, (x.size,)) if node.attribute("axis", None) is None else x
    numbers = np.flatnonzero(np.asarray(condition.data))
    line = indexing.contiguous(numbers.tolist())
    if line is None:
        return g.gather(x, numbers, axis)
    return g.slices(x, [line if i == axis else range(n) for i, n in enumerate(x.shape)])


def reverse_sequence(g: Emitter, node: OnnxNode) -> Tensor:
    batch, time = int(node.attribute("batch_axis", 1)), int(node.attribute("time_axis", 0))
    return indexing.reverse_sequence(g, node.input(0), node.input(1), time, batch)


def tensor_scatter(g: Emitter, node: OnnxNode) -> Tensor:
    """A cache with new rows written from a place on that each batch has; circular: from the front on after the end."""
    cache, update, starts = node.input(0), node.input(1), node.optional(2)
    axis, batch = node.axis(-2), cache.shape[0]
    node.need(axis > 0, "an axis of 0, which counts the batches; transpose the cache")
    extent, count = cache.shape[axis], update.shape[axis]
    circular = node.attribute("mode", "linear") == "circular"
    begins = constant(np.zeros(batch, np.int32)) if starts is None else g.cast(starts, "INT32")
    if batch == 1 and not circular:
        parts = [begins if i == axis else constant(np.zeros(1, np.int32)) for i in range(len(cache.shape))]
        return g.emit("DYNAMIC_UPDATE_SLICE", [cache, update, g.concat(parts, 0)], cache.shape, cache.type)
    rows = g.binary("ADD", g.reshape(begins, (batch, 1)), np.arange(count, dtype=np.int32).reshape(1, -1))
    rows = g.binary("FLOOR_MOD", rows, np.array(extent, np.int32)) if circular else rows
    batches = np.arange(batch, dtype=np.int32).reshape(-1, 1).repeat(count, 1)
    at = g.concat([constant(batches.reshape(batch, count, 1)), g.reshape(rows, (batch, count, 1))], 2)
    order = [0, axis, *(i for i in range(1, len(cache.shape)) if i != axis)]
    y = indexing.scatter_nd(g, g.transpose(cache, order), at, g.transpose(update, order))
    return g.transpose(y, [order.index(i) for i in range(len(order))])


IMPORTERS: dict[str, Importer] = {
    "Compress": compress,
    "Gather": lambda g, node: g.gather(node.input(0), node.input(1), node.axis(0)),
    "GatherElements": lambda g, node: g.take_along(node.input(0), node.input(1), node.axis(0)),
    "GatherND": gather_nd,
    "OneHot": one_hot,
    "ReverseSequence": reverse_sequence,
    "ScatterElements": scatter,
    "ScatterND": scatter,
    "TensorScatter": tensor_scatter,
    "TopK": top_k,
}
