"""CONV_2D of int16 and int8 with groups or gaps between taps on Helium: kernels_c/conv/conv2d_mve_s16.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._parts import groups_s16
from twinfer.runtime.ops.core.packing import FOURS
from twinfer.runtime.ops.isa.mve import BLOCK_S16, PIXELS
from twinfer.runtime.ops.isa.mve_s16 import packed_fours
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer, groups = groups_s16(node)
    out, depth = groups[0].weights.shape
    blocks = -(-depth // BLOCK_S16)
    sizes = {"blocks": blocks, "bytes": 2 * layer.weights.shape[3], "out": out}
    params: dict[str, Param] = {"window": layer.window.params, "limits": groups[0].limits, **sizes}
    packed = np.concatenate([packed_fours(channels) for channels in groups])
    inputs, rows = (node.input(0), weights(packed, FOURS)), layer.window.by_rows(PIXELS)
    kernel, scratch = "tw_conv2d_groups_mve_s16", 4 * BLOCK_S16 * blocks
    return Call(kernel, params, inputs, (node.output,), scratch, macs=layer.macs, rows=rows)


VARIANT = Variant("mve", ("CONV_2D",), frozenset({"mve"}), lower, ("INT16",))
