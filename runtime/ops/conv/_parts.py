"""Layers whose kernels on SMLAD and Helium run several small matrices one after the other: the groups of a CONV_2D, the
phases of a TRANSPOSE_CONV (kernels_c/core/window.h)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv import transpose_conv
from twinfer.runtime.ops.conv._layer import Convolution, convolution_of
from twinfer.runtime.ops.core.channels import constant_bias
from twinfer.runtime.ops.core.hybrid import is_hybrid
from twinfer.runtime.ops.core.requantize import Channels
from twinfer.runtime.ops.core.unsigned import is_unsigned
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.ops.isa.short import channels_s8
from twinfer.runtime.variant import accept, present


def groups_of(node: Node) -> tuple[Convolution, list[Channels]]:
    """A CONV_2D and the channels of each of its groups, which may be one if its taps have gaps."""
    layer = convolution_of(node)
    apart = layer.window.dilated
    accept(layer.groups > 1 or apart, "it has no groups, and its taps have no gaps")
    out = layer.window.out_c // layer.groups
    channels = channels_s8(layer.node, layer.weights.reshape(layer.window.out_c, -1), layer.bias)
    return layer, [channels.part(first, first + out) for first in range(0, layer.window.out_c, out)]


@dataclass(frozen=True)
class Phases:
    """A TRANSPOSE_CONV: its window, and the channels of each phase, by the tap that it begins with."""

    window: Window
    channels: list[Channels]
    macs: int

    @property
    def depth(self) -> int:
        """The most weights that an output channel has in a phase."""
        return max(int(channels.weights.shape[1]) for channels in self.channels)


def phases_of(node: Node) -> Phases:
    """Declined unless all of it is constant and every phase has taps."""
    conv, g = transpose_conv.as_conv(node), transpose_conv.geometry(node)
    accept(not is_hybrid(conv), "activations are float and weights int8")
    accept(node.input(2).type == "INT8", "its values are not of int8")
    accept(not is_unsigned(node), "the weights may have a zero point")
    accept(g.k_h >= g.stride_h and g.k_w >= g.stride_w, "outputs lie between the windows")
    w = present(node.input(1).data, "the weights are computed at run time")
    bias = present(constant_bias(conv, g.out_c), "the bias is computed at run time")
    every = [_taps(w, g, ky, kx) for ky in range(g.stride_h) for kx in range(g.stride_w)]
    channels = [channels_s8(conv, taps, bias) for taps in every]
    return Phases(g, channels, g.batches * g.in_h * g.in_w * w.size)


def _taps(w: Array, g: Window, ky: int, kx: int) -> Array:
    """Every stride-th tap from the last to (ky, kx), int8 [out_c, k]."""
    taps = w[:, ky :: g.stride_h, kx :: g.stride_w][:, ::-1, ::-1]
    return np.ascontiguousarray(taps).reshape(g.out_c, -1)
