"""CONV_2D and FULLY_CONNECTED of int8 over 16 lanes without what is zero in 16 channels: conv2d_sparse_wide.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import index, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._bands import Bands
from twinfer.runtime.ops.conv._sparse import LAYOUT, sparse_of
from twinfer.runtime.ops.core.channels import epilogue, fold_zero, lane_channels
from twinfer.runtime.ops.core.packing import LANES
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    return _lower("tw_conv2d_sparse_wide_s8", node, 1)


def lower_avx2(node: Node, target: Target) -> Call:
    """The same where halves are multiplied."""
    return _lower("tw_conv2d_sparse_avx2_s8", node, 2)


def _lower(kernel: str, node: Node, size: int) -> Call:
    """``size``: bytes of a value in the copy of a band."""
    layer, zero = sparse_of(node, LANES), node.input(0).zero
    bands = Bands(layer.window, layer.weights, size)
    accept(bands.times == 1, f"it has {layer.window.out_c} output channels: two pixels share a vector")
    steps = bands.packed.array  # [out / 16, steps, 16, values of 4 bytes]
    kept = np.asarray(steps.any((2, 3)))
    places = np.concatenate([np.append(some.sum(), bands.places[some]) for some in kept])
    room = max(0, 5 - places.size)  # gcc warns where four steps at once would not lie in the table
    folded = fold_zero(layer.weights, layer.bias, 128 + zero if size == 1 else 0)
    ends, fast = lane_channels(layer.node, folded)
    params: dict[str, Param] = {**bands.params, "end": epilogue(layer.node), "in_zero": zero, "fast": fast}
    inputs = (weights(steps[kept], LAYOUT), *ends, index(np.pad(places, (0, room)).astype(np.int32)))
    return layer.call(kernel, params, inputs, bands.scratch, 1)


VARIANTS = (
    Variant("sparse_wide", ("CONV_2D", "FULLY_CONNECTED"), frozenset({"avx512_vnni"}), lower, ("INT8",), few=True),
    Variant("sparse_avx2", ("CONV_2D", "FULLY_CONNECTED"), frozenset({"avx2"}), lower_avx2, ("INT8",), few=True),
    Variant("sparse_wide", ("CONV_2D", "FULLY_CONNECTED"), frozenset({"simd"}), lower, ("INT8",), few=True),
)
