"""CONV_2D and FULLY_CONNECTED of float activations and int8 weights: kernels_c/conv/conv2d_hybrid_*.h."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from twinfer.runtime.constant import Constant, sums_of_weights, weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._layer import geometry
from twinfer.runtime.ops.core.activation import float_range, vector_range
from twinfer.runtime.ops.core.hybrid import hybrid_constants, is_hybrid, symmetric_hybrid
from twinfer.runtime.ops.core.packing import FOURS
from twinfer.runtime.ops.core.weights import unpacked
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.ops.dense._layer import ASYMMETRIC, shape_of
from twinfer.runtime.ops.isa.dsp import fours, need_bytes
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call, Weights
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept, present

#: Most weights of a channel, so that sums stay below 2^30.
MOST = (1 << 16) - 1


class Hybrid(NamedTuple):
    """A node as windows over float images: weights int8 [out_c, k], and which scales it has (``tw_conv2d_hybrid``)."""

    node: Node
    window: Window
    weights: Array
    symmetric: bool
    together: bool

    def params(self, k: int) -> dict[str, Param]:
        """``tw_conv2d_hybrid_params``, for windows of ``k`` values."""
        vector = self.node.op == "FULLY_CONNECTED"
        low, high = vector_range(self.node) if vector else float_range(self.node)
        numbers = {"k4": k, "symmetric": int(self.symmetric), "together": int(self.together), "vector": int(vector)}
        return {"window": self.window.params, "limits": {"low": low, "high": high}, **numbers}

    def call(self, kernel: str, params: dict[str, Param], packed: Constant, stored: Weights) -> Call:
        """The call of a kernel: its weights are ``packed``, scratch has room for an image and a window of ``k4``."""
        g, x = self.window, self.node.input(0)
        sums = sums_of_weights(self.weights.sum(1, dtype=np.int32))
        inputs = (x, packed, sums, *hybrid_constants(self.node, g.out_c))
        scratch = sum(-(-size // 16) * 16 for size in (g.image, -(-self.weights.shape[1] // 4) * 4))
        inplace = (0,) if g.batches == 1 else ()  # the whole image is quantised before the first output
        outputs, macs = (self.node.output,), g.pixels * int(self.weights.size)
        return Call(kernel, params, inputs, outputs, scratch, inplace=inplace, macs=macs, weights=stored)


def hybrid_of(node: Node) -> Hybrid:
    """Declined if activations are not float, weights not int8 or computed, or a convolution has groups."""
    node = unpacked(node)
    accept(is_hybrid(node), "weights are float")
    w = present(node.input(1).data, "the weights are computed at run time")
    if node.op == "FULLY_CONNECTED":
        shape = shape_of(node)
        symmetric = not node.options.get(ASYMMETRIC, False)
        return Hybrid(node, _rows(shape["batches"], shape["depth"], shape["out"]), w, symmetric, together=True)
    g = geometry(node)
    accept(w.shape[3] == g.in_c, "it has groups")
    symmetric = symmetric_hybrid(node)
    return Hybrid(node, g, w.reshape(g.out_c, -1), symmetric, together=symmetric)


def _rows(batches: int, depth: int, out: int) -> Window:
    """Rows of a matrix as images of one pixel."""
    return Window(batches, 1, 1, depth, 1, 1, out, 1, 1, 1, 1, 1, 1, 0, 0)


def lower_dsp(node: Node, target: Target) -> Call:
    """The call on the DSP extension."""
    layer = hybrid_of(node)
    depth = layer.weights.shape[1]
    accept(depth <= MOST, f"a channel has {depth} weights, {MOST} are the limit")
    bytes, k4 = need_bytes(layer.weights), -(-depth // 4) * 4
    params: dict[str, Param] = {"all": layer.params(k4), "bytes": int(bytes), "direct": int(layer.window.pointwise)}
    packed = weights(fours(layer.weights, bytes=bytes), FOURS)
    return layer.call("tw_conv2d_hybrid_dsp", params, packed, Weights(halves=not bytes))


def lower_mve(node: Node, target: Target) -> Call:
    """The call on Helium."""
    layer = hybrid_of(node)
    depth = layer.weights.shape[1]
    accept(depth <= MOST, f"a channel has {depth} weights, {MOST} are the limit")
    params: dict[str, Param] = {"all": layer.params(depth), "direct": int(layer.window.pointwise)}
    return layer.call("tw_conv2d_hybrid_mve", params, weights(np.ascontiguousarray(layer.weights)), Weights())


SERVED = ("CONV_2D", "FULLY_CONNECTED")

VARIANTS = (
    Variant("hybrid_dsp", SERVED, frozenset({"dsp"}), lower_dsp, ("FLOAT32",)),
    Variant("hybrid_mve", SERVED, frozenset({"mve"}), lower_mve, ("FLOAT32",)),
)
