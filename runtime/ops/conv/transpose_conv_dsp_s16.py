"""TRANSPOSE_CONV of int16 and int8 on the DSP extension: kernels_c/conv/transpose_conv_dsp_s16.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import per_channel, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._parts import phases_s16
from twinfer.runtime.ops.core.packing import ENDS, PAIRS
from twinfer.runtime.ops.isa.dsp import PIXELS, pairs_s16
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = phases_s16(node)
    packed, ends = zip(*map(pairs_s16, layer.channels), strict=True)
    accept(all(np.array_equal(each, ends[0]) for each in ends), "a channel is constant in some phases alone")
    words = 2 * -(-layer.depth // 4)
    params: dict[str, Param] = {
        "window": layer.window.params, "limits": layer.channels[0].limits, "words": words
    }  # fmt: skip
    whole = np.concatenate([part.reshape(-1) for part in packed])
    inputs, scratch = (node.input(2), weights(whole, PAIRS), per_channel(ends[0], ENDS)), 4 * (PIXELS + 1) * words
    return Call("tw_transpose_conv_dsp_s16", params, inputs, (node.output,), scratch, macs=layer.macs)


VARIANT = Variant("dsp", ("TRANSPOSE_CONV",), frozenset({"dsp"}), lower)
