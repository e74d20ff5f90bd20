"""Operators that take tensors apart and put them together."""

from __future__ import annotations

import math

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
    """Equal parts; the last one is smaller where the extent does not divide."""
    each = -(-extent // parts)
    return (*[each] * (parts - 1), extent - each * (parts - 1))


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
    """Constant indices, counted from the front; ONNX may count them from the end."""
    x, indices, axis = node.input(0), node.input(1), node.axis(0)
    if indices.data is not None:
        return g.gather(x, np.where(indices.data < 0, indices.data + x.shape[axis], indices.data), axis)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    return g.emit("GATHER", [x, indices], shape, axis=axis)


def _picked(g: Emitter, parts: list[Tensor], table: np.ndarray) -> Tensor:
    """Elements by their place among all of the tensors' elements, one tensor behind the other."""
    return g.gather(g.concat([g.reshape(part, (part.size,)) for part in parts], 0), table, 0)


def _places(node: OnnxNode, axis: int) -> np.ndarray:
    """The places, among all elements of input 0, of those that constant indices (input 1) name along an axis."""
    x, indices = node.input(0), np.asarray(node.constant(1))
    at: list[np.ndarray] = list(np.indices(indices.shape))
    at[axis] = np.where(indices < 0, indices + x.shape[axis], indices)
    return np.asarray(np.ravel_multi_index(tuple(at), x.shape))


def gather_elements(g: Emitter, node: OnnxNode) -> Tensor:
    return _picked(g, [node.input(0)], _places(node, node.axis(0)))


def scatter_elements(g: Emitter, node: OnnxNode) -> Tensor:
    """Elements of input 2 in place of some of input 0: each element is picked from the one or the other."""
    node.need(node.attribute("reduction", "none") == "none", "reductions; add or compare the tensors instead")
    x, updates = node.input(0), node.input(2)
    g.budget.afford(8 * x.size, "a table of its elements")
    table = np.arange(x.size)
    table[_places(node, node.axis(0)).reshape(-1)] = x.size + np.arange(updates.size)
    return _picked(g, [x, updates], table.reshape(x.shape))


def gather_nd(g: Emitter, node: OnnxNode) -> Tensor:
    """Slices by constant indices [..., k] of the first k dimensions, which become one."""
    node.need(not node.attribute("batch_dims", 0), "batch_dims; leave them out")
    x, indices = node.input(0), np.asarray(node.constant(1))
    depth = indices.shape[-1]
    rows = np.moveaxis(np.where(indices < 0, indices + np.array(x.shape[:depth]), indices), -1, 0)
    flat = g.reshape(x, (int(np.prod(x.shape[:depth])), *x.shape[depth:]))
    return g.gather(flat, np.asarray(np.ravel_multi_index(tuple(rows), x.shape[:depth])), 0)


def trilu(g: Emitter, node: OnnxNode) -> Tensor:
    """Zeros below or above a diagonal of the last two dimensions."""
    x, given = node.input(0), node.constant(1)
    k = 0 if given is None else int(given.reshape(-1)[0])
    g.budget.afford(math.prod(x.shape[-2:]), "a triangle")
    ones = np.ones(x.shape[-2:], np.bool_)
    kept = np.triu(ones, k) if node.attribute("upper", 1) else np.tril(ones, k)
    return g.emit("SELECT_V2", [kept, x, np.array(0, x.dtype)], x.shape, x.type)


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


IMPORTERS = {
    "Concat": concat,
    "DepthToSpace": depth_to_space,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Pad": pad,
    "ScatterElements": scatter_elements,
    "Slice": slice_,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Tile": tile,
    "Trilu": trilu,
}
