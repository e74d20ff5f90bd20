"""Layers whose kernels on SMLAD and Helium run several small matrices one after the other: the groups of a CONV_2D, the
phases of a TRANSPOSE_CONV (kernels_c/core/window.h)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv import transpose_conv
from twinfer.runtime.ops.conv._layer import Convolution, convolution_of
from twinfer.runtime.ops.core import requantize, requantize_s16
from twinfer.runtime.ops.core.channels import constant_bias
from twinfer.runtime.ops.core.hybrid import is_hybrid
from twinfer.runtime.ops.core.unsigned import is_unsigned, weight_zero
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.ops.isa.short import channels_s8, channels_s16
from twinfer.runtime.variant import accept, present

#: Channels of int8 or of int16.
C = TypeVar("C", requantize.Channels, requantize_s16.Channels)


def groups_of(node: Node) -> tuple[Convolution, list[requantize.Channels]]:
    """A CONV_2D of int8 and the channels of each of its groups, which may be one if its taps have gaps."""
    layer, firsts = _grouped(node)
    channels = channels_s8(layer.node, layer.weights.reshape(layer.window.out_c, -1), layer.bias)
    return layer, [channels.part(first, first + firsts.step) for first in firsts]


def groups_s16(node: Node) -> tuple[Convolution, list[requantize_s16.Channels]]:
    """The same of int16; Declined unless all sums fit 32 bits."""
    layer, firsts = _grouped(node)
    channels = channels_s16(layer.node, layer.weights.reshape(layer.window.out_c, -1))
    accept(channels.fit, "the sums over a window do not fit 32 bits")
    return layer, [channels.part(first, first + firsts.step) for first in firsts]


def _grouped(node: Node) -> tuple[Convolution, range]:
    """A CONV_2D, and the first output channel of each of its groups."""
    layer = convolution_of(node)
    accept(layer.groups > 1 or layer.window.dilated, "it has no groups, and its taps have no gaps")
    return layer, range(0, layer.window.out_c, layer.window.out_c // layer.groups)


@dataclass(frozen=True)
class Phases(Generic[C]):
    """A TRANSPOSE_CONV: its window, and the channels of each phase, by the tap that it begins with."""

    window: Window
    channels: list[C]
    macs: int

    @property
    def depth(self) -> int:
        """The most weights that an output channel has in a phase."""
        return max(int(channels.weights.shape[1]) for channels in self.channels)


def phases_of(node: Node) -> Phases[requantize.Channels]:
    """The phases of int8; Declined unless all of it is constant."""
    layer = taps_of(node, "INT8")
    return Phases(layer.window, [channels_s8(layer.conv, each, layer.bias) for each in layer.taps], layer.macs)


def phases_s16(node: Node) -> Phases[requantize_s16.Channels]:
    """The phases of int16; Declined unless all of it is constant and all sums fit 32 bits."""
    layer = taps_of(node, "INT16")
    channels = [channels_s16(layer.conv, each) for each in layer.taps]
    accept(all(each.fit for each in channels), "the sums over a window do not fit 32 bits")
    return Phases(layer.window, channels, layer.macs)


class Taps(NamedTuple):
    """A TRANSPOSE_CONV, ``conv`` with its inputs as CONV_2D has them: its window, its bias [out_c], and the weights of
    every phase, int8 [out_c, k], zeros where outputs lie between windows."""

    conv: Node
    window: Window
    bias: Array
    taps: list[Array]

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        g = self.window
        return g.batches * g.in_h * g.in_w * self.conv.input(1).size


def taps_of(node: Node, type: str) -> Taps:
    """Declined unless all of it is constant, and the values are of that type."""
    conv, g = transpose_conv.as_conv(node), transpose_conv.geometry(node)
    accept(not is_hybrid(conv), "activations are float and weights int8")
    accept(node.input(2).type == type, f"its values are not of {type.lower()}")
    accept(not is_unsigned(node) or not weight_zero(node.input(1)), "the weights have a zero point")
    w = present(node.input(1).data, "the weights are computed at run time")
    bias = present(constant_bias(conv, g.out_c), "the bias is computed at run time")
    taps = [_taps(w, g, ky, kx) for ky in range(g.stride_h) for kx in range(g.stride_w)]
    return Taps(conv, g, bias, taps)


def _taps(w: Array, g: Window, ky: int, kx: int) -> Array:
    """Every stride-th tap from the last to (ky, kx)."""
    taps = w[:, ky :: g.stride_h, kx :: g.stride_w][:, ::-1, ::-1]
    return np.ascontiguousarray(taps).reshape(g.out_c, -1) if taps.size else np.zeros((g.out_c, 1), np.int8)
