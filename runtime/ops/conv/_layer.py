"""A convolution as its kernels see it: a window over pixels, and one row of weights per output channel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.core.channels import constant_bias
from twinfer.runtime.ops.core.hybrid import is_hybrid
from twinfer.runtime.ops.core.madd import is_fused
from twinfer.runtime.ops.core.unsigned import less_zero, weight_zero
from twinfer.runtime.ops.core.weights import unpacked
from twinfer.runtime.ops.core.window import Window, window_of
from twinfer.runtime.params import Param
from twinfer.runtime.program import Argument, Call, Weights
from twinfer.runtime.variant import accept, present

#: Operators that are a convolution over all input channels if there is one input channel.
ONE_CHANNEL = ("DEPTHWISE_CONV_2D",)


def geometry(node: Node) -> Window:
    """The window of CONV_2D (weights [out_c, k_h, k_w, in_c / groups]) or DEPTHWISE_CONV_2D ([1, k_h, k_w, out_c])."""
    first, k_h, k_w, last = node.input(1).shape
    return window_of(node, k_h, k_w, last if node.op == "DEPTHWISE_CONV_2D" else first)


def beyond(node: Node) -> float | None:
    """What adds nothing to a sum: the zero point, 0.0 times finite weights. None for float activations over int8
    weights, which find their scale by the whole image, and where a bias of -0.0 would show that a fused sum is -0.0:
    another product of 0.0 would make it 0.0."""
    x, w = node.input(0), node.input(1)
    if x.type != "FLOAT32":
        return x.zero
    bias = node.optional(2) if is_fused(node) else None
    if bias is not None and (bias.data is None or (np.signbit(bias.data) & (bias.data == 0)).any()):
        return None
    return 0.0 if w.type == "FLOAT32" and w.data is not None and np.isfinite(w.data).all() else None


class Convolution(NamedTuple):
    """A convolution with constant weights and bias.

    ``weights`` are int8 or float32 [out_c, k_h, k_w, in_c / groups], or [1, k_h, k_w, out_c] in a DEPTHWISE_CONV_2D;
    ``bias`` is [out_c]. weights of 4 or 2 bits are unpacked in ``node``.
    """

    node: Node
    window: Window
    weights: Array
    bias: Array

    @property
    def zero(self) -> int:
        """The zero point of the weights, 0 unless they were uint8."""
        return weight_zero(self.node.input(1))

    @property
    def taps(self) -> Array:
        """The weights less their zero point: int8 if they have none, else int16."""
        return less_zero(self.weights, self.zero)

    @property
    def stored(self) -> tuple[str, Weights | None]:
        """What kernels of ``taps`` have in their names, and how these may be coded: only int8 may."""
        return ("_w16", None) if self.zero else ("", Weights())

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return int(self.window.pixels * self.weights.size)

    @property
    def groups(self) -> int:
        """Groups of channels; as many as input channels in a DEPTHWISE_CONV_2D."""
        return self.window.in_c if self._depthwise else self.window.in_c // self.weights.shape[3]

    def call(
        self,
        kernel: str,
        params: Mapping[str, Param],
        inputs: tuple[Argument, ...],
        scratch: int,
        pixels: int,
        stored: Weights | None = None,
    ) -> Call:
        """The call of a kernel that takes ``pixels`` at once; ``stored`` says how its weights may be coded."""
        rows = self.window.by_rows(pixels)
        outputs = (self.node.output,)
        return Call(kernel, params, inputs, outputs, scratch, macs=self.macs, weights=stored, rows=rows)

    @property
    def _depthwise(self) -> bool:
        return self.node.op == "DEPTHWISE_CONV_2D"

    @property
    def rows(self) -> Array:
        """``taps`` of every output channel, [out_c, k_h * k_w * in_c]; Declined if the convolution has groups."""
        w, g = self.taps, self.window
        accept(self.groups == 1, f"it has {self.groups} groups")
        return w.reshape(-1, g.out_c).T if self._depthwise else w.reshape(g.out_c, -1)


def check_one_to_one(g: Window) -> None:
    """Declined unless a DEPTHWISE_CONV_2D of several channels makes one output channel from each."""
    accept(g.in_c > 1, "it has one input channel")
    accept(g.in_c == g.out_c, f"it makes {g.out_c} output channels from {g.in_c}")


def convolution_of(node: Node, *, any_zero: bool = False) -> Convolution:
    """A CONV_2D or DEPTHWISE_CONV_2D.

    Declined if float activations meet int8 weights, if weights or bias vary, or, but with ``any_zero``, if the weights
    have a zero point.
    """
    node = unpacked(node)
    accept(not is_hybrid(node), "activations are float and weights int8")
    accept(any_zero or weight_zero(node.input(1)) == 0, "the weights have a zero point")
    window = geometry(node)
    weights = present(node.input(1).data, "the weights are computed at run time")
    bias = present(constant_bias(node, window.out_c), "the bias is computed at run time")
    return Convolution(node, window, weights, bias)
