"""Operators that take tensors apart and put them together."""

from __future__ import annotations

import numpy as np

from twinfer.converter.emit.emitter import NCHW, NHWC, Emitter
from twinfer.converter.onnx.node import OnnxNode, Shape, positive
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Tensor


def concat(g: Emitter, node: OnnxNode) -> Tensor:
    return g.concat([node.input(i) for i in range(len(node.inputs))], node.axis(0))


def split(g: Emitter, node: OnnxNode) -> tuple[Tensor, ...]:
    x, axis = node.input(0), node.axis(0)
    sizes = node.ints("split", 1) or _even(x.shape[axis], len(node.outputs))
    if sum(sizes) != x.shape[axis] or len(sizes) != len(node.outputs):
        raise ModelError(f"{node}: {list(x.shape)} cannot be split along {axis} into {list(sizes)}")
    if len(sizes) == 1:
        return (x,)
    shapes = [(*x.shape[:axis], n, *x.shape[axis + 1 :]) for n in sizes]
    where = np.array(axis, np.int32)
    if len(set(sizes)) == 1:
        return g.emit_all("SPLIT", [where, x], shapes, x.type, num_splits=len(sizes))
    return g.emit_all("SPLIT_V", [x, np.array(sizes, np.int32), where], shapes, num_splits=len(sizes))


def _even(extent: int, parts: int) -> Shape:
    """Equal parts, the last one smaller where they do not come out even."""
    each = -(-extent // parts)
    return (*[each] * (parts - 1), extent - each * (parts - 1))


def slice_(g: Emitter, node: OnnxNode) -> Tensor:
    """Starts and ends are cut to the tensor, as numpy does; a step against the order ends before the first element."""
    x = node.input(0)
    starts, ends = node.ints("starts", 1) or (), node.ints("ends", 2) or ()
    axes, steps = node.ints("axes", 3) or range(len(starts)), node.ints("steps", 4) or [1] * len(starts)
    ranges = [range(d) for d in x.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = positive(node, axis, len(x.shape))
        ranges[at] = range(*slice(start, end, step).indices(x.shape[at]))
    shape = tuple(map(len, ranges))
    if all(r.step == 1 for r in ranges):
        return g.part(x, [r.start for r in ranges], shape)
    mask = sum((r.stop < 0) << i for i, r in enumerate(ranges))  # -1 would count from the end
    limits = [np.array(v, np.int32) for v in zip(*((r.start, r.stop, r.step) for r in ranges), strict=True)]
    return g.emit("STRIDED_SLICE", [x, *limits], shape, end_mask=mask)


def pad(g: Emitter, node: OnnxNode) -> Tensor:
    """Constant padding as PAD, other modes as GATHER of the elements that they repeat; negative padding cuts."""
    x, mode = node.input(0), node.attribute("mode", "constant")
    pads = _pads(node)
    if mode != "constant":
        for axis, both in enumerate(pads):
            if any(both):
                x = g.gather(x, _repeated(x.shape[axis], both, mode), axis)
        return x
    value = node.constant(2)
    cuts = [(max(-before, 0), max(-after, 0)) for before, after in pads]
    sizes = [d - sum(cut) for d, cut in zip(x.shape, cuts, strict=True)]
    x = g.part(x, [cut[0] for cut in cuts], sizes)
    fill = 0 if value is None or not value.size else value.reshape(-1)[0]
    return g.pad(x, [(max(before, 0), max(after, 0)) for before, after in pads], fill)


def _pads(node: OnnxNode) -> list[tuple[int, int]]:
    """(before, after) for every dimension."""
    rank, given = len(node.input(0).shape), node.ints("pads", 1) or ()
    axes = node.ints("axes", 3) or tuple(range(rank))
    if len(given) != 2 * len(axes):
        raise ModelError(f"{node}: {len(given)} pads for {len(axes)} axes")
    pads = [(0, 0)] * rank
    for i, axis in enumerate(axes):
        pads[positive(node, axis, rank)] = (given[i], given[i + len(axes)])
    return pads


def _repeated(extent: int, pads: tuple[int, int], mode: str) -> np.ndarray:
    """Which element stands where after padding."""
    before, after = pads
    kept = np.arange(max(-before, 0), extent - max(-after, 0))
    return np.pad(kept, (max(before, 0), max(after, 0)), mode=mode)  # type: ignore[call-overload, no-any-return]


def gather(g: Emitter, node: OnnxNode) -> Tensor:
    """Indices from the end on are counted from the front where they are constant, as they are in practice."""
    x, indices, axis = node.input(0), node.input(1), node.axis(0)
    if indices.data is not None:
        return g.gather(x, np.where(indices.data < 0, indices.data + x.shape[axis], indices.data), axis)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    return g.emit("GATHER", [x, indices], shape, axis=axis)


def depth_to_space(g: Emitter, node: OnnxNode) -> Tensor:
    """TFLite's order is DCR; CRD is that of channels sorted otherwise."""
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


IMPORTERS = {
    "Concat": concat,
    "DepthToSpace": depth_to_space,
    "Gather": gather,
    "Pad": pad,
    "Slice": slice_,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Tile": tile,
}
