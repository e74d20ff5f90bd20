"""CONV_2D of int8 by Winograd's on cores without SMLAD: kernels_c/conv/conv2d_winograd_words.h and those beside it."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._winograd import call_of
from twinfer.runtime.ops.core.packing import padded
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights, two output channels by turns."""
    return call_of("words", node, 1, 4, _packed)


def lower_tiles(node: Node, target: Target) -> Call:
    """The same of 3 x 3 taps: along a line they would save 6 % of tcn_int8's instructions beside tiles."""
    accept(node.input(1).shape[1:3] == (3, 3), "its window is not 3 x 3")
    return call_of("tiles", node, 1, 4, _packed)


def _packed(u: Array) -> Array:
    w = padded(u, 2).reshape(-1, 2, *u.shape[1:])
    return np.ascontiguousarray(w.transpose(0, 2, 3, 1))


VARIANTS = (
    Variant("winograd_words", ("CONV_2D",), frozenset({"words"}), lower, ("INT8",), larger=2),
    Variant("winograd_tiles", ("CONV_2D",), frozenset({"words", "tiles"}), lower_tiles, ("INT8",), larger=2),
)
