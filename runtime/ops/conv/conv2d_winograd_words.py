"""CONV_2D of int8 by Winograd's F(2 x 2, 3 x 3) on cores without SMLAD: kernels_c/conv/conv2d_winograd_words.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._winograd import call_of
from twinfer.runtime.ops.core.packing import padded
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    return call_of("tw_conv2d_winograd_words_s8", node, 1, 4, _packed)


def _packed(u: Array) -> Array:
    """Two output channels by turns."""
    w = padded(u, 2).reshape(-1, 2, 16, u.shape[2])
    return np.ascontiguousarray(w.transpose(0, 2, 3, 1))


#: On cores with tiles before those, too.
VARIANTS = tuple(
    Variant("winograd_words", ("CONV_2D",), frozenset({feature}), lower, ("INT8",), larger=True)
    for feature in ("words", "tiles")
)
