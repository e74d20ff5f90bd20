"""Windows of ONNX's convolutions and pools: their padding as TFLite's, images with the channels last, and pools of any
number of dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.onnx.node import OnnxNode, Shape
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Tensor

Floats = NDArray[np.float64]
Pads = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Window:
    """Kernel, strides, dilations, and padding as (before, after), each for every spatial dimension."""

    kernel: Shape
    strides: Shape
    dilations: Shape
    pads: Pads

    @property
    def extents(self) -> Shape:
        """How far the kernel reaches, holes counted."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def outputs(self, size: Shape) -> Shape:
        """Extents of the result for an image of ``size``; ModelError if the kernel does not fit in."""
        rows = zip(size, self.pads, self.extents, self.strides, strict=True)
        sizes = tuple((n + sum(pad) - extent) // stride + 1 for n, pad, extent, stride in rows)
        if min(sizes) < 1:
            raise ModelError(f"the kernel {list(self.extents)} does not fit into the padded image {list(size)}")
        return sizes

    def same(self, size: Shape) -> bool:
        """Whether TFLite's SAME pads the same way."""
        rows = zip(size, self.extents, self.strides, strict=True)
        return self.pads == tuple(_same(n, extent, stride, upper=True) for n, extent, stride in rows)

    @property
    def unpadded(self) -> bool:
        return not any(map(any, self.pads))

    @property
    def undilated(self) -> bool:
        return set(self.dilations) == {1}

    def inside(self) -> Window:
        """The same without padding."""
        return replace(self, pads=((0, 0),) * len(self.pads))

    def along(self, axes: range) -> Window:
        """The window over some of the dimensions."""
        some = slice(axes.start, axes.stop)
        return Window(self.kernel[some], self.strides[some], self.dilations[some], self.pads[some])

    def with_height(self) -> Window:
        """One over a width gets a height of one."""
        return Window((1, *self.kernel), (1, *self.strides), (1, *self.dilations), ((0, 0), *self.pads))

    @property
    def options(self) -> dict[str, Any]:
        """The strides as TFLite's options."""
        return {f"stride_{side}": s for side, s in zip("dhw"[-len(self.strides) :], self.strides, strict=True)}


def _same(size: int, extent: int, stride: int, upper: bool) -> tuple[int, int]:
    """Padding that leaves ceil(size / stride) outputs; the odd one comes after, or before unless ``upper``."""
    total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    less, more = total // 2, total - total // 2
    return (less, more) if upper else (more, less)


def window_of(node: OnnxNode, kernel: Shape, size: Shape) -> Window:
    """The window of a convolution or pooling over an image of ``size``."""
    rank = len(size)
    node.need(1 <= rank <= 3, f"{rank} spatial dimensions; TFLite has one to three")
    strides = tuple(node.attribute("strides", None) or [1] * rank)
    dilations = tuple(node.attribute("dilations", None) or [1] * rank)
    if not len(kernel) == len(strides) == len(dilations) == rank:
        raise ModelError(f"{node}: kernel, strides and dilations must have {rank} numbers")
    window = Window(tuple(kernel), strides, dilations, ())
    return replace(window, pads=_pads(node, window, size))


def _pads(node: OnnxNode, window: Window, size: Shape) -> Pads:
    auto, rank = node.attribute("auto_pad", "NOTSET"), len(size)
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        rows = zip(size, window.extents, window.strides, strict=True)
        return tuple(_same(n, extent, stride, auto == "SAME_UPPER") for n, extent, stride in rows)
    if auto == "VALID":
        return ((0, 0),) * rank
    if auto != "NOTSET":
        raise ModelError(f"{node}: auto_pad {auto!r} does not exist")
    pads = tuple(node.attribute("pads", [0] * 2 * rank))
    if len(pads) != 2 * rank or min(pads) < 0:
        raise ModelError(f"{node}: pads {list(pads)} must be {2 * rank} numbers from zero up")
    return tuple(zip(pads[:rank], pads[rank:], strict=True))


def pool_window(node: OnnxNode) -> Window:
    """The window of a pool; with ceil_mode it is padded until the last output's kernel is inside."""
    size, pads = node.input(0).shape[2:], []
    window = window_of(node, tuple(node.attribute("kernel_shape", ())), size)
    if not node.attribute("ceil_mode", 0):
        return window
    for n, (before, after), extent, stride in zip(size, window.pads, window.extents, window.strides, strict=True):
        count = -(-(n + before + after - extent) // stride) + 1
        if (count - 1) * stride >= n + before:  # all of the last kernel would lie in the padding behind
            count -= 1
        pads.append((before, max((count - 1) * stride + extent - n - before, after)))
    return replace(window, pads=tuple(pads))


def pad_image(g: Emitter, x: Tensor, window: Window, value: Any = 0) -> tuple[Tensor, str, Shape]:
    """The image [n, *spatial, c], TFLite's padding, and the result's extents. Padding that TFLite lacks becomes PAD."""
    size = x.shape[1:-1]
    out = window.outputs(size)
    if window.unpadded:
        return x, "VALID", out
    if window.same(size):
        return x, "SAME", out
    return g.pad(x, [(0, 0), *window.pads, (0, 0)], value), "VALID", out


def channels_last(g: Emitter, x: Tensor, run: Callable[[Tensor], Tensor]) -> Tensor:
    """``run`` on [n, c, *spatial] laid as [n, *spatial, c], and its result laid back."""
    rank = len(x.shape)
    if rank < 3:
        raise ModelError(f"{x} must have batches, channels and spatial dimensions")
    y = run(g.transpose(x, (0, *range(2, rank), 1)))
    return g.transpose(y, (0, rank - 1, *range(1, rank - 1)))


def pool(g: Emitter, op: str, x: Tensor, window: Window, value: Any = 0) -> Tensor:
    """A pool over [n, *spatial, c]. TFLite's have two dimensions and no holes: three dimensions are pooled two at once
    and then one, those with holes one after the other. ``value``: of padding that is none of TFLite's."""
    if not window.undilated:
        x = g.pad(x, [(0, 0), *window.pads, (0, 0)], value)
        for i, out in enumerate(window.inside().outputs(x.shape[1:-1])):
            x = _pool_axis(g, op, x, i + 1, window.along(range(i, i + 1)), out)
        return x
    rank = len(window.kernel)
    if rank == 3:
        n, d, h, w, c = x.shape
        y = pool(g, op, g.reshape(x, (n * d, h, w, c)), window.along(range(1, 3)), value)
        columns = g.reshape(y, (n, d, math.prod(y.shape[1:])))
        z = pool(g, op, columns, window.along(range(1)), value)
        return g.reshape(z, (n, z.shape[1], *y.shape[1:]))
    window = window if rank == 2 else window.with_height()
    image = x if rank == 2 else g.reshape(x, (x.shape[0], 1, *x.shape[1:]))
    image, padding, size = pad_image(g, image, window, value)
    options = {**window.options, "filter_height": window.kernel[0], "filter_width": window.kernel[1]}
    y = g.emit(op, [image], (image.shape[0], *size, image.shape[3]), padding=padding, **options)
    return y if rank == 2 else g.reshape(y, (y.shape[0], *y.shape[2:]))


def _pool_axis(g: Emitter, op: str, x: Tensor, axis: int, window: Window, out: int) -> Tensor:
    """A pool over one dimension of x, which is padded already.

    Elements a dilation apart lie below each other in [before, size / dilation, 1, dilation * behind]; there the window
    has no holes. It yields all outputs, of which strides leave some.
    """
    ((kernel,), (stride,), (dilation,)) = window.kernel, window.strides, window.dilations
    if (kernel, stride) == (1, 1) and op != "L2_POOL_2D":  # that one takes magnitudes
        return x
    before, size, behind = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
    rows = -(-size // dilation)
    lead, rest = x.shape[:axis], x.shape[axis + 1 :]
    image = g.reshape(x, (before, size, 1, behind))
    image = g.pad(image, [(0, 0), (0, rows * dilation - size), (0, 0), (0, 0)])
    image = g.reshape(image, (before, rows, 1, dilation * behind))
    step = stride if dilation == 1 else 1
    count = (rows - kernel) // step + 1
    options: dict[str, Any] = {"stride_h": step, "stride_w": 1, "filter_height": kernel, "filter_width": 1}
    y = g.emit(op, [image], (before, count, 1, dilation * behind), padding="VALID", **options)
    if dilation > 1:
        y = g.reshape(y, (before, count * dilation, behind))
        y = g.slices(y, [range(before), range(0, (out - 1) * stride + 1, stride), range(behind)])
    return g.reshape(y, (*lead, out, *rest))


def sums(ones: Floats, window: Window) -> Floats:
    """The sum of every window over [*spatial], which is padded already."""
    for axis, row in enumerate(zip(window.kernel, window.strides, window.dilations, window.extents, strict=True)):
        kernel, stride, dilation, extent = row
        count = (ones.shape[axis] - extent) // stride + 1
        at = np.arange(count)[:, None] * stride + np.arange(kernel) * dilation
        ones = np.take(ones, at, axis).sum(axis + 1)
    return ones
