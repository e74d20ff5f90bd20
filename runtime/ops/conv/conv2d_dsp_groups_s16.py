"""CONV_2D of int16 and int8 with groups on the DSP extension: kernels_c/conv/conv2d_dsp_s16.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import per_channel, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._parts import groups_s16
from twinfer.runtime.ops.core.packing import ENDS, PAIRS
from twinfer.runtime.ops.isa.dsp import PIXELS, pairs_s16
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer, groups = groups_s16(node)
    accept(len(groups) > 1, "it has no groups")
    packed = [pairs_s16(channels) for channels in groups]
    whole, ends = (np.concatenate(parts) for parts in zip(*packed, strict=True))
    sizes = {"words": whole.shape[1], "bytes": 2 * layer.weights.shape[3], "out": len(groups[0].weights)}
    params: dict[str, Param] = {"window": layer.window.params, "limits": groups[0].limits, **sizes}
    inputs, rows = (node.input(0), weights(whole, PAIRS), per_channel(ends, ENDS)), layer.window.by_rows(PIXELS)
    kernel, scratch = "tw_conv2d_groups_dsp_s16", 4 * (PIXELS + 1) * whole.shape[1]
    return Call(kernel, params, inputs, (node.output,), scratch, macs=layer.macs, rows=rows)


VARIANT = Variant("dsp", ("CONV_2D",), frozenset({"dsp"}), lower, ("INT16",))
