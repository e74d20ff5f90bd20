"""RESIZE_NEAREST_NEIGHBOR and RESIZE_BILINEAR: images [batches, height, width, channels] to a new height and width."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.constant import index
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, need_type, tensor, unsupported
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target

_MOST = 1 << 20  # positions have 10 fractional bits in int32
_NOTHING = np.float32(0)  # added as TFLM does: no negative zero


def _options(node: Node) -> tuple[bool, bool]:
    """align_corners and half_pixel_centers."""
    return bool(node.options.get("align_corners", False)), bool(node.options.get("half_pixel_centers", False))


def infer_nearest(node: Node) -> list[Shape]:
    """Images of any type of fixed size; the new height and width are a constant."""
    need(len(node.inputs) == 2, node, f"it has {len(node.inputs)} inputs, not 2")
    x, y, size = node.input(0), node.output, node.constant(1)
    need_type(node, node.input(1), "INT32")
    need(x.type == y.type and x.dtype.itemsize > 0, node, f"{x} and {y} differ in type")
    need(len(x.shape) == 4 and min(x.shape[1:3]) > 0, node, f"{x} must have 4 dimensions (NHWC) and not be empty")
    need(size.shape == (2,), node, f"the new size ({node.input(1)}) must be two numbers")
    need(size.min() > 0, node, f"the new size {size.tolist()} must be positive")
    if max(*x.shape, *size.tolist()) > _MOST:
        raise unsupported(node, f"dimensions above {_MOST} are not supported: split the image")
    return [(x.shape[0], int(size[0]), int(size[1]), x.shape[3])]


def infer_bilinear(node: Node) -> list[Shape]:
    need_type(node, node.input(0), "FLOAT32", "INT8", "INT16", "UINT8")
    need(not all(_options(node)), node, "align_corners and half_pixel_centers exclude each other")
    return infer_nearest(node)


def _scale(node: Node, axis: int) -> np.float32:
    """Input steps per output step, in float32."""
    size, new = node.input(0).shape[axis], node.output.shape[axis]
    corners = _options(node)[0] and new > 1
    return np.float32(size - corners) / np.float32(new - corners)


def _nearest(node: Node, axis: int) -> NDArray[np.int64]:
    """Input index of every output index. Source: TFLM reference_ops::GetNearestNeighbor, in float32."""
    align, half = _options(node)
    size, new = node.input(0).shape[axis], node.output.shape[axis]
    at = ((np.arange(new, dtype=np.float32) + np.float32(0.5 * half)) * _scale(node, axis)).astype(np.float64)
    index = np.floor(at + 0.5 if align else at).astype(np.int64)
    return np.minimum(index, size - 1)


def reference_nearest(node: Node, inputs: list[Any]) -> list[Array]:
    rows, cols = _nearest(node, 1), _nearest(node, 2)
    return [inputs[0][:, rows][:, :, cols]]


def lower_nearest(node: Node, target: Target) -> Call:
    x, y = node.input(0), node.output
    pixel = x.shape[3] * x.dtype.itemsize
    row = x.shape[2] * pixel
    sizes = {"out_h": y.shape[1], "out_w": y.shape[2], "pixel": pixel}
    params = {"batches": x.shape[0], "image": x.shape[1] * row, **sizes}
    offsets = (_nearest(node, 1) * row, _nearest(node, 2) * pixel)
    return Call("tw_resize_nearest_neighbor", params, (x, *(index(o.astype(np.int32)) for o in offsets)), (y,))


def _steps(node: Node, axis: int) -> tuple[int, int]:
    """Scale and offset with 10 fractional bits. Source: TFLM reference_ops::ResizeBilinearInteger."""
    align, half = _options(node)
    size, new = node.input(0).shape[axis], node.output.shape[axis]
    corners = align and new > 1
    size, new = size - corners, new - corners
    scale = (1024 * size + new // 2) // new
    return scale, scale // 2 - 512 if half else 0


def _places_int(node: Node, axis: int) -> tuple[Array, Array, Array]:
    """Per output index: the input index below, the one above, and the distance from below in 1/1024."""
    scale, offset = _steps(node, axis)
    at = np.clip(np.arange(node.output.shape[axis]) * scale + offset, 0, (node.input(0).shape[axis] - 1) * 1024)
    return at // 1024, -(-at // 1024), at % 1024


def _places_float(node: Node, axis: int) -> tuple[Array, Array, Array]:
    """The same with the distance in float32. Source: TFLM reference_ops::ComputeInterpolationValues."""
    last, centre = node.input(0).shape[axis] - 1, np.float32(0.5 * _options(node)[1])
    at = (np.arange(node.output.shape[axis], dtype=np.float32) + centre) * _scale(node, axis) - centre
    low = np.clip(np.floor(at), 0, last).astype(np.int64)
    return low, np.minimum(np.ceil(at), last).astype(np.int64), at - low.astype(np.float32)


def reference_bilinear(node: Node, inputs: list[Any]) -> list[Array]:
    (x, _), integer, bytes_ = inputs, inputs[0].dtype.kind == "i", inputs[0].dtype == np.uint8
    type = x.dtype
    places = _places_int if integer else _places_float
    (top, bottom, part_h), (left, right, part_w) = places(node, 1), places(node, 2)
    one = 1024 if integer else np.float32(1)
    part_h, part_w = part_h[:, None, None], part_w[:, None]
    x = x.astype(np.int64 if integer else np.float32)
    total = (
        x[:, top][:, :, left] * (one - part_h) * (one - part_w)
        + x[:, bottom][:, :, left] * part_h * (one - part_w)
        + x[:, top][:, :, right] * (one - part_h) * part_w
        + x[:, bottom][:, :, right] * part_h * part_w
    )
    if bytes_:  # LiteRT's reference_ops::ResizeBilinear
        return [(total + np.float32(0.5)).astype(np.uint8)]
    if not integer:
        return [total + _NOTHING]
    return [(np.sign(total) * ((np.abs(total) + (1 << 19)) >> 20)).astype(type)]


def lower_bilinear(node: Node, target: Target) -> Call:
    x, y = node.input(0), node.output
    names = ("batches", "in_h", "in_w", "channels", "out_h", "out_w")
    params: dict[str, int | float] = dict(zip(names, (*x.shape, *y.shape[1:3]), strict=True))
    if x.type in ("FLOAT32", "UINT8"):
        kernel = "tw_resize_bilinear_f32" if x.type == "FLOAT32" else "tw_resize_bilinear_u8"
        params |= {f"scale_{a}": float(_scale(node, i)) for i, a in ((1, "h"), (2, "w"))}
        return Call(kernel, {**params, "centre": 0.5 * _options(node)[1]}, (x,), (y,))
    (scale_h, offset_h), (scale_w, offset_w) = _steps(node, 1), _steps(node, 2)
    params |= {"scale_h": scale_h, "offset_h": offset_h, "scale_w": scale_w, "offset_w": offset_w}
    return Call(f"tw_resize_bilinear_{'s8' if x.type == 'INT8' else 's16'}", params, (x,), (y,))


def _cases(op: str, types: tuple[str, ...]) -> Iterator[Case]:
    for type in types:
        scale, zero = (None, 0) if type == "FLOAT32" else (0.1, 0 if type == "INT16" else 3)
        for align, half in ((False, False), (True, False), (False, True), (True, True)):
            if op == "RESIZE_BILINEAR" and align and half:
                continue
            for (b, h, w, c), new in (
                ((1, 4, 4, 3), (8, 8)), ((2, 3, 5, 1), (7, 4)), ((1, 7, 9, 17), (3, 2)), ((1, 1, 6, 2), (5, 1)),
                ((1, 5, 1, 33), (1, 6)), ((1, 6, 7, 2), (6, 7)),
            ):  # fmt: skip
                size = tensor((2,), "INT32", data=np.array(new), name="size")
                x, y = tensor((b, h, w, c), type, scale, zero), tensor((b, *new, c), type, scale, zero, name="y")
                wide = type == "UINT8" or (type == "INT16" and op == "RESIZE_BILINEAR")
                options = {"align_corners": align, "half_pixel_centers": half}
                yield Case(Node(op, (x, size), (y,), options), oracle="litert" if wide else "tflm")


OPS = (
    Op(
        "RESIZE_NEAREST_NEIGHBOR", infer_nearest, reference_nearest, lower_nearest,
        lambda rng: _cases("RESIZE_NEAREST_NEIGHBOR", ("INT8", "FLOAT32", "INT16", "UINT8")), uint8="moves",
    ),
    Op(
        "RESIZE_BILINEAR", infer_bilinear, reference_bilinear, lower_bilinear,
        lambda rng: _cases("RESIZE_BILINEAR", ("INT8", "FLOAT32", "UINT8", "INT16")),
    ),
)  # fmt: skip
