"""Depthwise convolutions channel by channel, as kernels_c/depthwise/depthwise_planes.h walks over them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twinfer.runtime.graph import Array
from twinfer.runtime.ops.conv._layer import Convolution
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.variant import accept


class Axis(NamedTuple):
    """Lines or the walk along them: ``extent`` of the image with the padding in front, outputs, taps of a window."""

    extent: int
    out: int
    taps: int
    stride: int
    dilation: int

    @property
    def columns(self) -> int:
        """Columns of a ring. Rounds of four windows read up to three windows beyond the last one."""
        return max(-(-self.extent // self.dilation) + 1, (-(-self.out // self.dilation) + 2) * self.stride + self.taps)


def is_turned(g: Window) -> bool:
    """Whether the walk is along columns of the image: it is along the longer axis of the output."""
    return g.out_h > g.out_w


def axes(g: Window) -> tuple[Axis, Axis]:
    """The lines, and the walk along them; Declined if the kernels have no such windows."""
    accept(g.in_c > 1, "it has one input channel")
    accept(1 in (g.stride_h, g.dilation_h) and 1 in (g.stride_w, g.dilation_w), "windows have stride and dilation")
    rows = Axis(g.pad_h + g.in_h, g.out_h, g.k_h, g.stride_h, g.dilation_h)
    columns = Axis(g.pad_w + g.in_w, g.out_w, g.k_w, g.stride_w, g.dilation_w)
    return (columns, rows) if is_turned(g) else (rows, columns)


def taps_of(layer: Convolution) -> Array:
    """The weights less their zero point, [out_c, along, lines]."""
    turned = is_turned(layer.window)
    taps = layer.taps[0]
    return np.ascontiguousarray(taps.transpose(2, 0, 1) if turned else taps.transpose(2, 1, 0))
