"""CONV_2D of int8 with groups or gaps between taps, and TRANSPOSE_CONV, on Helium: kernels_c/conv/conv2d_mve.h."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinfer.runtime.constant import Constant, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._parts import groups_of, phases_of
from twinfer.runtime.ops.conv.conv2d_mve import fours_of
from twinfer.runtime.ops.core.packing import FOURS
from twinfer.runtime.ops.core.requantize import Channels
from twinfer.runtime.ops.isa.mve import BLOCK_S8, PIXELS
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant


def _packed(parts: Sequence[Channels]) -> Constant:
    """The fours of all parts, one after the other."""
    return weights(np.concatenate([fours_of(channels).reshape(-1) for channels in parts]), FOURS)


def _scratch(depth: int) -> int:
    """The bytes of two columns."""
    return PIXELS * BLOCK_S8 * -(-depth // BLOCK_S8)


def lower(node: Node, target: Target) -> Call:
    """The call of a CONV_2D with groups."""
    layer, groups = groups_of(node)
    out, depth = groups[0].weights.shape
    blocks = -(-depth // BLOCK_S8)
    sizes = {"blocks": blocks, "in_zero": node.input(0).zero, "bytes": layer.weights.shape[3], "out": out}
    params: dict[str, Param] = {"window": layer.window.params, "end": groups[0].end, **sizes}
    inputs, rows = (node.input(0), _packed(groups)), layer.window.by_rows(PIXELS)
    kernel, scratch = "tw_conv2d_groups_mve_s8", _scratch(depth)
    return Call(kernel, params, inputs, (node.output,), scratch, macs=layer.macs, rows=rows)


def lower_transposed(node: Node, target: Target) -> Call:
    """The call of a TRANSPOSE_CONV."""
    layer, x = phases_of(node), node.input(2)
    params: dict[str, Param] = {"window": layer.window.params, "end": layer.channels[0].end, "in_zero": x.zero}
    inputs, kernel, scratch = (x, _packed(layer.channels)), "tw_transpose_conv_mve_s8", _scratch(layer.depth)
    return Call(kernel, params, inputs, (node.output,), scratch, macs=layer.macs)


VARIANTS = (
    Variant("mve", ("CONV_2D",), frozenset({"mve"}), lower, ("INT8",)),
    Variant("mve", ("TRANSPOSE_CONV",), frozenset({"mve"}), lower_transposed),
)
