"""Parts of images: Col2Im puts overlapping blocks together, RoiAlign and MaxRoiPool look at boxes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from twinfer.converter.emit.emitter import NCHW, NHWC, Emitter, Operand, constant
from twinfer.converter.emit.products import spread, transpose_conv
from twinfer.converter.onnx.node import Importer, OnnxNode, Shape
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Tensor


def col2im(g: Emitter, node: OnnxNode) -> Tensor:
    """Blocks [n, c * block, places] added where they lie in images: a transposed convolution with one 1 per tap."""
    x, image, block = node.input(0), node.ints("image_shape", 1) or (), node.ints("block_shape", 2) or ()
    rank = len(image)
    strides, dilations = (tuple(node.attribute(name, [1] * rank)) for name in ("strides", "dilations"))
    pads = tuple(node.attribute("pads", [0] * 2 * rank))
    if not len(block) == len(strides) == len(dilations) == rank == len(pads) // 2:
        raise ModelError(f"{node}: image, block, strides, dilations and pads must all have {rank} numbers")
    reach = [(k - 1) * d + 1 for k, d in zip(block, dilations, strict=True)]
    rows = zip(image, pads, pads[rank:], reach, strides, strict=False)
    counts = tuple((n + before + after - k) // s + 1 for n, before, after, k, s in rows)
    taps, n = math.prod(block), x.shape[0]
    if x.shape[1] % taps or x.shape[2] != math.prod(counts):
        raise ModelError(f"{node}: {list(x.shape)} are no blocks {list(block)} of images {list(image)}")
    c = x.shape[1] // taps
    if rank > 2:
        return _added(g, x, (image, block, counts), (strides, dilations, pads[:rank]))
    flat = [(1,) * (2 - rank) + tuple(v) for v in (image, block, counts, strides, dilations)]
    (h, w), taps_2d, counts_2d, strides_2d, dilations_2d = flat
    kernel = spread(np.eye(taps, dtype=np.float32).reshape(1, taps, *taps_2d), dilations_2d)
    full = tuple((m - 1) * s + k for m, s, k in zip(counts_2d, strides_2d, kernel.shape[2:], strict=True))
    begin = (0,) * (2 - rank) + pads[:rank]
    columns = g.transpose(g.reshape(x, (n * c, taps, *counts_2d)), NHWC)
    weights = constant(kernel.transpose(0, 2, 3, 1))
    y = transpose_conv(g, columns, (weights, np.zeros(1, np.float32)), (strides_2d, full, begin, (h, w)))
    return g.reshape(y, (n, c, *image))


def _added(g: Emitter, x: Tensor, shapes: tuple[Shape, Shape, Shape], steps: tuple[Shape, Shape, Shape]) -> Tensor:
    """The same in any number of dimensions, element by element."""
    (image, block, counts), (strides, dilations, before) = shapes, steps
    taps, places, rank = math.prod(block), math.prod(counts), len(image)
    g.budget.afford(8 * rank * taps * places, "a table of its elements")
    tap = np.indices(block).reshape(rank, taps, 1)
    place = np.indices(counts).reshape(rank, 1, places)
    column = [np.reshape(v, (rank, 1, 1)) for v in (dilations, strides, before, image)]
    at = tap * column[0] + place * column[1] - column[2]
    inside = ((at >= 0) & (at < column[3])).all(0).reshape(-1)
    n, c = x.shape[0], x.shape[1] // taps
    rows = g.transpose(g.reshape(x, (n * c, taps * places)), (1, 0))
    numbers = np.ravel_multi_index(tuple(at.reshape(rank, -1)[:, inside]), image).astype(np.int32)
    rows = rows if inside.all() else g.gather(rows, np.flatnonzero(inside), 0)
    inputs: list[Operand] = [numbers.reshape(-1, 1), rows, np.array((math.prod(image), n * c), np.int32)]
    y = g.emit("SCATTER_ND", inputs, (math.prod(image), n * c), x.type)
    return g.reshape(g.transpose(y, (1, 0)), (n, c, *image))


@dataclass(frozen=True)
class Boxes:
    """How boxes become images: ``parts`` of each, for height and width, take ``grid`` places each."""

    parts: tuple[int, int]
    grid: tuple[int, int]
    scale: float
    half: bool
    greatest: bool


def roi_align(g: Emitter, node: OnnxNode) -> Tensor:
    """Values between pixels at places of each box, of which each part takes the mean or the greatest."""
    x, boxes, batches = (node.input(i) for i in range(3))
    mode = node.attribute("coordinate_transformation_mode", "half_pixel" if node.opset >= 16 else "output_half_pixel")
    parts = int(node.attribute("output_height", 1)), int(node.attribute("output_width", 1))
    ratio, scale = int(node.attribute("sampling_ratio", 0)), float(node.attribute("spatial_scale", 1.0))
    how = Boxes(parts, (ratio, ratio), scale, mode == "half_pixel", node.attribute("mode", "avg") == "max")
    if ratio > 0:
        return g.transpose(_looked_at(g, x, boxes, batches, how), NCHW)
    why = "sampling_ratio 0: how many places there are depends on boxes that are known at run time only; set it"
    node.need(boxes.data is not None, why)
    corners = np.asarray(boxes.data) * np.float32(scale)
    sides = corners[:, [3, 2]] - corners[:, [1, 0]]
    grids = np.ceil((sides if how.half else np.maximum(sides, 1)) / np.array(parts, np.float32)).astype(int)
    node.need(bool((grids > 0).all()), "boxes without an area; leave them out")
    results = []
    for i, grid in enumerate(grids.tolist()):
        box, batch = g.part(boxes, (i, 0), (1, 4)), g.part(batches, (i,), (1,))
        results.append(_looked_at(g, x, box, batch, replace(how, grid=tuple(grid))))
    return g.transpose(g.concat(results, 0), NCHW)


def _looked_at(g: Emitter, x: Tensor, boxes: Tensor, batches: Tensor, how: Boxes) -> Tensor:
    """The parts of every box, NHWC: sums of four pixels around each place, then a pool over the places of a part."""
    n, c, h, w = x.shape
    count, (rows, columns) = boxes.shape[0], (p * k for p, k in zip(how.parts, how.grid, strict=True))
    pixels = g.reshape(g.transpose(x, NHWC), (n * h * w, c))
    ends = [g.part(boxes, (0, i), (count, 1)) for i in (1, 3, 0, 2)]
    down = _line(g, ends[0], ends[1], rows, h, how)
    across = _line(g, ends[2], ends[3], columns, w, how)
    image = g.binary("MUL", g.reshape(g.cast(batches, "INT32"), (count, 1, 1)), np.array(h * w, np.int32))
    around: list[Tensor] = []
    for row, of_row in down:
        start = g.reshape(g.binary("MUL", row, np.array(w, np.int32)), (count, rows, 1))
        start = g.binary("ADD", start, image) if n > 1 else start
        for column, of_column in across:
            at = g.binary("ADD", start, g.reshape(column, (count, 1, columns)))
            weight = g.binary(
                "MUL", g.reshape(of_row, (count, rows, 1, 1)), g.reshape(of_column, (count, 1, columns, 1))
            )
            around.append(g.binary("MUL", g.emit("GATHER", [pixels, at], (*at.shape, c), axis=0), weight))
    y = reduce(lambda a, b: g.binary("MAXIMUM" if how.greatest else "ADD", a, b), around)
    (high, wide), op = how.grid, "MAX_POOL_2D" if how.greatest else "AVERAGE_POOL_2D"
    window: dict[str, Any] = {"filter_height": high, "filter_width": wide, "stride_h": high, "stride_w": wide}
    return g.emit(op, [y], (count, *how.parts, c), padding="VALID", **window)


def _line(
    g: Emitter, begin: Tensor, end: Tensor, places: int, extent: int, how: Boxes
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The pixels before and behind each place between two ends [boxes, 1], as numbers and weights [boxes, places]. Both
    weights are 0 more than a pixel outside."""
    scale, half = np.array(how.scale, np.float32), np.array(0.5, np.float32)
    side = g.binary("MUL", g.binary("SUB", end, begin), scale)
    start = g.binary("MUL", begin, scale)
    if how.half:
        start = g.binary("SUB", start, half)
    else:
        side = g.binary("MAXIMUM", side, np.array(1, np.float32))
    shares = ((np.arange(places) + 0.5) / places).astype(np.float32)
    at = g.binary("ADD", g.binary("MUL", side, shares), start)
    after = g.binary("GREATER_EQUAL", at, np.array(-1, np.float32), "BOOL")
    before = g.binary("LESS_EQUAL", at, np.array(extent, np.float32), "BOOL")
    seen = g.cast(g.binary("LOGICAL_AND", after, before), "FLOAT32")
    at = g.binary("MINIMUM", g.binary("MAXIMUM", at, np.array(0, np.float32)), np.array(extent - 1, np.float32))
    low = g.unary("FLOOR", at)
    high = g.binary("MINIMUM", g.binary("ADD", low, np.array(1, np.float32)), np.array(extent - 1, np.float32))
    share = g.binary("MUL", g.binary("SUB", at, low), seen)
    return (g.cast(low, "INT32"), g.binary("SUB", seen, share)), (g.cast(high, "INT32"), share)


def max_roi_pool(g: Emitter, node: OnnxNode) -> Tensor:
    """The greatest pixel of every part of constant boxes [boxes, 5]: batch, left, top, right, bottom."""
    x, boxes = node.input(0), node.constant(1)
    parts = tuple(int(p) for p in node.attribute("pooled_shape", (1, 1)))
    _, c, h, w = x.shape
    given = np.asarray(boxes)
    ends = np.floor(given[:, 1:] * np.float32(node.attribute("spatial_scale", 1.0)) + np.float32(0.5)).astype(int)
    windows = [[_windows(row[1], row[3], parts[0], h), _windows(row[0], row[2], parts[1], w)] for row in ends]
    found = []
    for batch, (down, across) in zip(given[:, 0].astype(int), windows, strict=True):
        image = g.part(x, (int(batch), 0, 0, 0), (1, c, h, w))
        for axis, ranges in ((2, down), (3, across)):
            slices = [_greatest(g, image, axis, each) for each in ranges]
            image = g.concat(slices, axis)
        found.append(image)
    return g.concat(found, 0)


def _windows(low: int, high: int, parts: int, extent: int) -> list[range]:
    """The pixels of every part between two ends, both counted."""
    size = max(high - low + 1, 1) / parts
    starts = [math.floor(i * size) + low for i in range(parts)]
    ends = [math.ceil((i + 1) * size) + low for i in range(parts)]
    return [range(min(max(a, 0), extent), min(max(b, 0), extent)) for a, b in zip(starts, ends, strict=True)]


def _greatest(g: Emitter, x: Tensor, axis: int, part: range) -> Tensor:
    """The greatest along an axis of a part, which is 0 if there is none."""
    shape = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
    if not part:
        return constant(np.zeros(shape, x.dtype))
    inside = g.slices(x, [part if i == axis else range(n) for i, n in enumerate(x.shape)])
    return g.emit("REDUCE_MAX", [inside, np.array([axis], np.int32)], shape, keep_dims=True)


IMPORTERS: dict[str, Importer] = {"Col2Im": col2im, "MaxRoiPool": max_roi_pool, "RoiAlign": roi_align}
