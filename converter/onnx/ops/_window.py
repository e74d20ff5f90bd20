"""Windows of convolutions and pooling: one and two spatial dimensions, ONNX's padding as TFLite's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from twinfer.converter.emit.emitter import NCHW, NHWC, Emitter
from twinfer.converter.onnx.node import OnnxNode, Shape
from twinfer.runtime.errors import ModelError, UnsupportedOperatorError
from twinfer.runtime.graph import Tensor


@dataclass(frozen=True)
class Window:
    """Kernel, strides, dilations, and padding as (before, after), each for height and width."""

    kernel: Shape
    strides: Shape
    dilations: Shape
    pads: tuple[tuple[int, int], ...]

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
    def options(self) -> dict[str, Any]:
        return {"stride_h": self.strides[0], "stride_w": self.strides[1]}

    @property
    def dilation_options(self) -> dict[str, Any]:
        return {"dilation_h_factor": self.dilations[0], "dilation_w_factor": self.dilations[1]}


def _same(size: int, extent: int, stride: int, upper: bool) -> tuple[int, int]:
    """Padding that leaves ceil(size / stride) outputs; the odd one comes after, or before unless ``upper``."""
    total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    less, more = total // 2, total - total // 2
    return (less, more) if upper else (more, less)


def window_of(node: OnnxNode, kernel: Shape, size: Shape) -> Window:
    """The window of a convolution or pooling over an image of ``size``, in 2-D (1-D gets a height of one)."""
    rank = len(size)
    node.need(rank in (1, 2), f"{rank} spatial dimensions; TFLite has one and two")
    strides = tuple(node.attribute("strides", [1] * rank))
    dilations = tuple(node.attribute("dilations", [1] * rank))
    if not len(kernel) == len(strides) == len(dilations) == rank:
        raise ModelError(f"{node}: kernel, strides and dilations must have {rank} numbers")
    window = Window(tuple(kernel), strides, dilations, ())
    window = replace(window, pads=_pads(node, window, size))
    return window if rank == 2 else Window((1, *kernel), (1, *strides), (1, *dilations), ((0, 0), *window.pads))


def _pads(node: OnnxNode, window: Window, size: Shape) -> tuple[tuple[int, int], ...]:
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


def padded(g: Emitter, x: Tensor, window: Window, value: Any = 0) -> tuple[Tensor, str, Shape]:
    """The NHWC image, TFLite's padding, and the result's height and width. Padding that TFLite lacks becomes PAD."""
    size = x.shape[1:3]
    out = window.outputs(size)
    if window.unpadded:
        return x, "VALID", out
    if window.same(size):
        return x, "SAME", out
    return g.pad(x, [(0, 0), *window.pads, (0, 0)], value), "VALID", out


def in_nhwc(g: Emitter, x: Tensor, run: Callable[[Tensor], Tensor]) -> Tensor:
    """``run`` on the NCHW tensor laid as NHWC, and its result laid back; [n, c, w] passes through as [n, 1, w, c]."""
    if len(x.shape) == 4:
        return g.transpose(run(g.transpose(x, NHWC)), NCHW)
    if len(x.shape) != 3:
        raise UnsupportedOperatorError(f"{len(x.shape) - 2} spatial dimensions; TFLite has one and two")
    line = g.transpose(x, (0, 2, 1))
    n, w, c = line.shape
    y = run(g.reshape(line, (n, 1, w, c)))
    return g.transpose(g.reshape(y, (y.shape[0], *y.shape[2:])), (0, 2, 1))
