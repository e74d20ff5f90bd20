"""CONV_2D of int8 with groups, and TRANSPOSE_CONV, on the DSP extension: kernels_c/conv/conv2d_dsp.h."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinfer.runtime.constant import Constant, per_channel, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._parts import groups_of, phases_of
from twinfer.runtime.ops.conv.conv2d_dsp import ends_of
from twinfer.runtime.ops.core.packing import ENDS, PAIRS
from twinfer.runtime.ops.core.requantize import Channels
from twinfer.runtime.ops.isa.dsp import PIXELS, pairs
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def _packed(parts: Sequence[Channels]) -> tuple[Constant, Constant]:
    """Weights and ends of all parts, one after the other."""
    packed = [pairs(channels.weights, 2) for channels in parts]
    accept(all(chunk >= words.shape[1] for words, chunk in packed), "the sums over a window do not fit half a word")
    words = np.concatenate([words.reshape(-1) for words, _ in packed])
    return weights(words, PAIRS), per_channel(np.concatenate([ends_of(channels) for channels in parts]), ENDS)


def _padded(depth: int) -> int:
    return -(-depth // 4) * 4


def lower(node: Node, target: Target) -> Call:
    """The call of a CONV_2D with groups."""
    layer, groups = groups_of(node)
    out, depth = groups[0].weights.shape
    k4 = _padded(depth)
    sizes = {"k4": k4, "in_zero": node.input(0).zero, "bytes": layer.weights.shape[3], "out": out}
    params: dict[str, Param] = {"window": layer.window.params, "end": groups[0].end, **sizes}
    inputs, rows = (node.input(0), *_packed(groups)), layer.window.by_rows(PIXELS)
    scratch = (2 * PIXELS + 1) * k4
    return Call("tw_conv2d_groups_dsp_s8", params, inputs, (node.output,), scratch, macs=layer.macs, rows=rows)


def lower_transposed(node: Node, target: Target) -> Call:
    """The call of a TRANSPOSE_CONV."""
    layer, x = phases_of(node), node.input(2)
    k4 = _padded(layer.depth)
    sizes = {"k4": k4, "in_zero": x.zero}
    params: dict[str, Param] = {"window": layer.window.params, "end": layer.channels[0].end, **sizes}
    inputs, scratch = (x, *_packed(layer.channels)), (2 * PIXELS + 1) * k4
    return Call("tw_transpose_conv_dsp_s8", params, inputs, (node.output,), scratch, macs=layer.macs)


VARIANTS = (
    Variant("dsp", ("CONV_2D",), frozenset({"dsp"}), lower, ("INT8",)),
    Variant("dsp", ("TRANSPOSE_CONV",), frozenset({"dsp"}), lower_transposed),
)
