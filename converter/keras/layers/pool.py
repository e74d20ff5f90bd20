"""Pools with one to three spatial dimensions, over windows, over everything, and to a given size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from twinfer.converter.emit.emitter import Emitter, Shape, constant
from twinfer.converter.emit.products import as_image, fully_connected
from twinfer.converter.keras.call import Call, Importer, any_order
from twinfer.converter.keras.layers.conv import Steps, each
from twinfer.runtime.graph import Tensor


def pooled(g: Emitter, op: str, x: Tensor, kernel: Shape, strides: Shape, padding: str) -> Tensor:
    """x [n, *spatial, c]. TFLite's pools have two dimensions: three are pooled two at once, then one."""
    rank = len(kernel)
    if rank == 3:
        n, d, *plane, c = x.shape
        y = pooled(g, op, g.reshape(x, (n * d, *plane, c)), kernel[1:], strides[1:], padding)
        z = pooled(g, op, g.reshape(y, (n, d, math.prod(y.shape[1:]))), kernel[:1], strides[:1], padding)
        return g.reshape(z, (n, z.shape[1], *y.shape[1:]))
    lead = (1,) * (2 - rank)
    kernel, steps = (*lead, *kernel), Steps((*lead, *strides), (1, 1), padding)
    options: dict[str, Any] = {"filter_height": kernel[0], "filter_width": kernel[1]}
    options |= {"stride_h": steps.strides[0], "stride_w": steps.strides[1]}

    def run(image: Tensor) -> Tensor:
        shape = (image.shape[0], *steps.outputs(image.shape[1:3], kernel), image.shape[3])
        return g.emit(op, [image], shape, padding="SAME" if padding == "same" else "VALID", **options)

    return as_image(g, x, run)


def _pool(op: str) -> Importer:
    def run(g: Emitter, call: Call) -> Tensor:
        own, x = call.layer, call.input()
        rank = len(x.shape) - 2
        kernel = each(own.pool_size, rank)
        strides = kernel if own.strides is None else each(own.strides, rank)
        return pooled(g, op, x, kernel, strides, own.padding)

    return any_order(run)


def _everywhere(op: str) -> Importer:
    def run(g: Emitter, call: Call) -> Tensor:
        if call.argument(1, "mask") is not None:
            return call.follow()[0]
        x, keep = call.input(), bool(call.layer.keepdims)
        first = call.layer.data_format == "channels_first"
        axes = np.arange(2 if first else 1, len(x.shape) - (not first), dtype=np.int32)
        return g.emit(op, [x, axes], call.shape, keep_dims=keep)

    return run


def _adaptive(op: str) -> Importer:
    """Window i of n goes from floor(i * size / n) to ceil((i + 1) * size / n): a pool where they are all alike, else
    one dimension after the other."""

    def run(g: Emitter, call: Call) -> Tensor:
        x = call.input()
        size = x.shape[1:-1]
        new = each(call.layer.output_size, len(size))
        if all(n % m == 0 for n, m in zip(size, new, strict=True)):
            kernel = tuple(n // m for n, m in zip(size, new, strict=True))
            return pooled(g, op, x, kernel, kernel, "valid")
        for axis, (n, m) in enumerate(zip(size, new, strict=True), start=1):
            ends = [(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]
            x = _averages(g, x, axis, ends) if op == "AVERAGE_POOL_2D" else _maxima(g, x, axis, ends)
        return x

    return any_order(run)


def _averages(g: Emitter, x: Tensor, axis: int, ends: list[tuple[int, int]]) -> Tensor:
    """A product with a matrix."""
    table = np.zeros((len(ends), x.shape[axis]), np.float32)
    for i, (first, last) in enumerate(ends):
        table[i, first:last] = 1 / (last - first)
    return g.along_last(x, [axis], lambda rows: fully_connected(g, rows, constant(table)))


def _maxima(g: Emitter, x: Tensor, axis: int, ends: list[tuple[int, int]]) -> Tensor:
    """Of all windows made as long as the longest: their last elements are repeated."""
    longest = max(last - first for first, last in ends)
    at = np.array([np.minimum(first + np.arange(longest), last - 1) for first, last in ends], np.int32)
    taken = g.gather(x, at, axis)
    shape = tuple(n for i, n in enumerate(taken.shape) if i != axis + 1)
    return g.emit("REDUCE_MAX", [taken, np.array([axis + 1], np.int32)], shape, keep_dims=False)


IMPORTERS: dict[str, Importer] = {}
for _kind, _over, _op in (("Average", "AVERAGE_POOL_2D", "MEAN"), ("Max", "MAX_POOL_2D", "REDUCE_MAX")):
    for _rank in ("1D", "2D", "3D"):
        IMPORTERS[f"{_kind}Pooling{_rank}"] = _pool(_over)
        IMPORTERS[f"Adaptive{_kind}Pooling{_rank}"] = _adaptive(_over)
        IMPORTERS[f"Global{_kind}Pooling{_rank}"] = _everywhere(_op)
    IMPORTERS[f"ops.{_kind}Pool"] = _pool(_over)
    IMPORTERS[f"ops.Adaptive{_kind}Pool"] = _adaptive(_over)
