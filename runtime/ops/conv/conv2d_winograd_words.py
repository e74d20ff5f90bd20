"""CONV_2D of int8 by Winograd's F(2 x 2, 3 x 3) on cores without SMLAD: kernels_c/conv/conv2d_winograd_words.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._winograd import call_of
from twinfer.runtime.ops.core.packing import padded
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights. It was measured on Cortex-M0 and M3, and pays on M3."""
    accept(not target.has("armv6-m"), "eight registers are too few for its sums")
    accept(not target.has("riscv"), "it is not known to be faster there")
    return call_of("tw_conv2d_winograd_words_s8", node, 1, _packed)


def _packed(u: Array) -> Array:
    """Two output channels by turns."""
    w = padded(u, 2).reshape(-1, 2, 16, u.shape[2])
    return np.ascontiguousarray(w.transpose(0, 2, 3, 1))


VARIANT = Variant("winograd_words", ("CONV_2D",), frozenset({"words"}), lower, ("INT8",), larger=True)
