"""CONV_2D and FULLY_CONNECTED of int8 on Helium without blocks of zeros: kernels_c/conv/conv2d_sparse_mve.h."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.conv._sparse import BLOCK, LAYOUT, blocks_of, sparse_of
from twinfer.runtime.ops.core.packing import padded
from twinfer.runtime.ops.core.requantize import Channels
from twinfer.runtime.ops.dense.fully_connected_mve import lower_s8 as lower_dense
from twinfer.runtime.ops.isa.mve import BLOCK_S8, FOUR, PIXELS
from twinfer.runtime.ops.isa.short import channels_s8
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

#: The most vectors that may be multiplied, as a share of those of all weights: each takes two more instructions.
MOST = 0.75


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = sparse_of(node, FOUR)
    g, channels = layer.window, channels_s8(layer.node, layer.weights, layer.bias)
    accept(g.k_w == 1 or g.dilation_w == 1, "the window is dilated along its rows")
    size = -(-layer.weights.shape[1] // BLOCK_S8) * BLOCK_S8
    accept(size <= 1 << 16, "its windows have so many inputs that places do not fit 16 bits")
    kept, whole = layer.kept, -(-g.out_c // FOUR) * size // BLOCK_S8
    vectors = int((-(-kept.sum(1) // FOUR)).sum())
    accept(vectors <= MOST * whole, f"its blocks fill {vectors} vectors of 16 inputs, all weights {whole}")
    numbers = {"size": size, "in_zero": node.input(0).zero}
    params: dict[str, Param] = {"window": g.params, "end": channels.end, **numbers}
    scratch, pixels = size * min(PIXELS, g.pixels), min(PIXELS, g.pixels)
    inputs = (weights(_packed(channels, kept), LAYOUT),)
    call = layer.call("tw_conv2d_sparse_mve_s8", params, inputs, scratch, pixels)
    if node.op == "CONV_2D":
        return call
    return replace(call, rows_call=lower_dense(node, target).rows_call)  # what adds up rows as they come


def _packed(c: Channels, keeps: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Fours as kernels_c/isa/mve/mve_sparse.h has them."""
    blocks = padded(blocks_of(c.weights), FOUR)
    fours = blocks.reshape(-1, FOUR, *blocks.shape[1:])
    start, mult = (padded(values, FOUR).reshape(-1, FOUR) for values in (c.bias, c.mult))
    shift = padded(c.shift.astype(np.int8), FOUR).view("<i4")
    parts = list[Array]()
    for i, (four, kept) in enumerate(zip(fours, keeps, strict=True)):
        at = padded(np.flatnonzero(kept), FOUR)
        own = four[:, at]
        own[:, int(kept.sum()) :] = 0
        own, at = (own, at) if at.size else (np.zeros((FOUR, FOUR, BLOCK), np.int8), np.zeros(FOUR, np.int64))
        each = np.ascontiguousarray(own.reshape(FOUR, -1, FOUR * BLOCK).transpose(1, 0, 2)).view("<i4")
        places = (BLOCK * at).astype("<u2").reshape(-1, FOUR).view("<i4")
        quads = np.concatenate([places, each.reshape(len(each), -1)], 1)
        parts += [start[i], np.array([len(quads)]), quads.reshape(-1), mult[i], shift[i : i + 1]]
    return np.concatenate(parts).astype(np.int32)


#: That of FULLY_CONNECTED needs scratch memory, which dense weights do not.
VARIANTS = (
    Variant("sparse_mve", ("CONV_2D",), frozenset({"mve"}), lower, ("INT8",), few=True),
    Variant("sparse_mve", ("FULLY_CONNECTED",), frozenset({"mve"}), lower, ("INT8",), larger=1, few=True),
)
