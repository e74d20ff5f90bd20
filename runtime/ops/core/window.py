"""Sliding windows (convolution, pooling): where they start, how often they fit, and what they see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import need
from twinfer.runtime.rows import Rows

_TOO_LARGE = 1 << 30  # the sum of two sizes must fit int32


class Window(NamedTuple):
    """Geometry of a node whose windows slide over height and width: ``tw_window`` (kernels_c/core/window.h)."""

    batches: int
    in_h: int
    in_w: int
    in_c: int
    out_h: int
    out_w: int
    out_c: int
    k_h: int
    k_w: int
    stride_h: int
    stride_w: int
    dilation_h: int
    dilation_w: int
    pad_h: int
    pad_w: int

    @property
    def params(self) -> dict[str, int]:
        """The members of ``tw_window``."""
        return self._asdict()

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The output's shape."""
        return (self.batches, self.out_h, self.out_w, self.out_c)

    @property
    def pixels(self) -> int:
        """Windows over all images."""
        return self.batches * self.out_h * self.out_w

    @property
    def image(self) -> int:
        """Elements of one input image."""
        return self.in_h * self.in_w * self.in_c

    @property
    def pointwise(self) -> bool:
        """Whether the windows are the input's pixels, one after another."""
        return (self.k_h, self.k_w, self.stride_h, self.stride_w, self.pad_h, self.pad_w) == (1, 1, 1, 1, 0, 0)

    @property
    def inside(self) -> bool:
        """Whether no window leaves the image."""
        rows = self.pad_h == 0 and (self.out_h - 1) * self.stride_h + (self.k_h - 1) * self.dilation_h < self.in_h
        columns = self.pad_w == 0 and (self.out_w - 1) * self.stride_w + (self.k_w - 1) * self.dilation_w < self.in_w
        return rows and columns

    @property
    def dilated(self) -> bool:
        return (self.dilation_h, self.dilation_w) != (1, 1)

    def by_rows(self, pixels: int = 1, setup: int = 0, tall: int = 1) -> Rows:
        """How a call with these windows in its param ``window`` computes some rows; see ``Rows`` for the others."""
        reach = (self.k_h - 1) * self.dilation_h
        return Rows(self.stride_h, self.pad_h, reach, window=True, pixels=pixels, tall=tall, setup=setup)

    def taps(self) -> Iterator[tuple[int, int]]:
        """Row and column of every tap."""
        return ((ky, kx) for ky in range(self.k_h) for kx in range(self.k_w))


def window_of(node: Node, k_h: int, k_w: int, out_c: int) -> Window:
    """Window of a node with TFLite's stride, dilation and padding options; ModelError where nothing fits.

    Where planning has folded a border into the node, its option ``padding`` is that of rows and that of columns.
    """
    x = node.input(0)
    need(len(x.shape) == 4, node, f"{x} must have 4 dimensions (NHWC)")
    need(x.shape[0] > 0 and x.shape[3] > 0, node, f"{x} is empty")
    o = node.options
    stride_h, stride_w = int(o["stride_h"]), int(o["stride_w"])
    dilation_h, dilation_w = int(o.get("dilation_h_factor", 1)), int(o.get("dilation_w_factor", 1))
    rows, columns = (o["padding"],) * 2 if isinstance(o["padding"], str) else o["padding"]
    out_h, pad_h = window(node, x.shape[1], k_h, stride_h, dilation_h, rows)
    out_w, pad_w = window(node, x.shape[2], k_w, stride_w, dilation_w, columns)
    b, h, w, c = x.shape
    return Window(
        b, h, w, c, out_h, out_w, out_c, k_h, k_w, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w
    )  # fmt: skip


def window(
    node: Node, extent_in: int, kernel: int, stride: int, dilation: int, padding: str | tuple[int, int]
) -> tuple[int, int]:
    """Output extent and padding before the first element, along one axis.

    SAME pads so that every ``stride``-th element gets a window, an odd element of padding behind; VALID does not pad;
    two numbers are elements of padding before and behind, fewer than a window reaches over.
    Raises ModelError where nothing fits. Source: TFLM padding.h, ComputeOutSize and ComputePaddingWithOffset.
    """
    if min(extent_in, kernel, stride, dilation) < 1:
        sizes = {"input": extent_in, "filter": kernel, "stride": stride, "dilation": dilation}
        what, size = next(each for each in sizes.items() if each[1] < 1)
        raise ModelError(f"{node}: {what} of {size} along a spatial axis: it must be at least 1")
    reach = (kernel - 1) * dilation + 1
    if max(extent_in, stride, reach) >= _TOO_LARGE:
        raise ModelError(f"{node}: filter {reach} or stride {stride} is too large")
    if padding == "SAME":
        out = -(-extent_in // stride)
        return out, max(0, (out - 1) * stride + reach - extent_in) // 2
    if isinstance(padding, str) and padding != "VALID":
        raise ModelError(f"{node}: padding {padding!r} is neither SAME nor VALID")
    before, behind = (0, 0) if isinstance(padding, str) else padding
    if max(before, behind) >= reach:
        raise ModelError(f"{node}: padding of {before} and {behind} lets windows of {reach} leave the input")
    padded = before + extent_in + behind
    if reach > padded:
        raise ModelError(f"{node}: a window of {reach} does not fit an input of {padded} without padding")
    return (padded - reach) // stride + 1, before


def inside(g: Window, ky: int, kx: int) -> Array:
    """Whether tap (ky, kx) of every window lies in the image: [1, out_h, out_w, 1]."""
    return shifted(np.ones((1, g.in_h, g.in_w, 1), bool), g, ky, kx, 0)


def shifted(x: Array, g: Window, ky: int, kx: int, fill: int | float) -> Array:
    """x as tap (ky, kx) of every window sees it: [batches, out_h, out_w, in_c], ``fill`` in the padding."""
    y = np.arange(g.out_h) * g.stride_h - g.pad_h + ky * g.dilation_h
    z = np.arange(g.out_w) * g.stride_w - g.pad_w + kx * g.dilation_w
    inside = ((y >= 0) & (y < g.in_h))[:, None] & ((z >= 0) & (z < g.in_w))[None, :]
    seen = x[:, y.clip(0, g.in_h - 1)][:, :, z.clip(0, g.in_w - 1)]
    return np.where(inside[None, :, :, None], seen, np.asarray(fill, x.dtype))
