"""TRANSPOSE_CONV of int16 and int8 on Helium: kernels_c/conv/transpose_conv_mve_s16.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._parts import phases_s16
from twinfer.runtime.ops.core.packing import FOURS
from twinfer.runtime.ops.isa.mve import BLOCK_S16, packed_fours
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = phases_s16(node)
    params: dict[str, Param] = {"window": layer.window.params, "limits": layer.channels[0].limits}
    packed = np.concatenate([packed_fours(channels).reshape(-1) for channels in layer.channels])
    inputs, scratch = (node.input(2), weights(packed, FOURS)), 4 * BLOCK_S16 * -(-layer.depth // BLOCK_S16)
    return Call("tw_transpose_conv_mve_s16", params, inputs, (node.output,), scratch, macs=layer.macs)


VARIANT = Variant("mve", ("TRANSPOSE_CONV",), frozenset({"mve"}), lower)
