"""CONV_2D of int8 by Winograd's on SMLAD: kernels_c/conv/conv2d_winograd_dsp.h and conv2d_winograd_line_dsp.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._winograd import call_of
from twinfer.runtime.ops.core.packing import padded
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant

#: Input channels that are unpacked at once.
STEP = 4


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    return call_of("dsp", node, STEP, 2, _packed)


def _packed(u: Array) -> Array:
    """Words of channels 0 and 2, 1 and 3 of every four."""
    w = padded(padded(u, STEP, 2), 2)
    places = w.shape[1]
    w = w.reshape(-1, 2, places, w.shape[2] // STEP, STEP)[..., [0, 2, 1, 3]]
    return np.ascontiguousarray(w.reshape(len(w), 2, places, -1, 2).transpose(0, 2, 3, 1, 4), "<i2").view("<i4")


VARIANT = Variant("winograd_dsp", ("CONV_2D",), frozenset({"dsp"}), lower, ("INT8",), larger=2)
