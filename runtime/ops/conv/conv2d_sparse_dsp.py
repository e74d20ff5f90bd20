"""CONV_2D, FULLY_CONNECTED of int8 on the DSP extension without blocks of zeros: kernels_c/conv/conv2d_sparse_dsp.h."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.constant import per_channel, weights
from twinfer.runtime.graph import Node
from twinfer.runtime.ops.conv._sparse import BLOCK, LAYOUT, blocks_of, sparse_of
from twinfer.runtime.ops.core.channels import fold_zero
from twinfer.runtime.ops.core.packing import ENDS
from twinfer.runtime.ops.core.requantize import Channels
from twinfer.runtime.ops.dense.fully_connected_dsp import lower_s8 as lower_dense
from twinfer.runtime.ops.isa.short import channels_s8
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target
from twinfer.runtime.variant import Variant, accept

#: Pixels of a panel, and bytes that four inputs of a pixel take there.
PIXELS, BYTES = 4, 8

#: The bound of sums, which are kept 256 times in 32 bits.
MOST = 1 << 23


def lower(node: Node, target: Target) -> Call:
    """The call for constant weights."""
    layer = sparse_of(node)
    channels = channels_s8(layer.node, layer.weights, layer.bias)
    pixels, k4 = PIXELS if layer.window.pixels > 1 else 1, BLOCK * blocks_of(layer.weights).shape[1]
    words, ends = _packed(channels, pixels * BYTES)
    numbers = {"k4": k4, "in_zero": node.input(0).zero, "pixels": pixels}
    params: dict[str, Param] = {"window": layer.window.params, "end": channels.end, **numbers}
    g = layer.window
    gathered = g.dilation_w > 1 or g.k_w * g.in_c % 4 or not g.inside  # else windows are read where they lie
    scratch = 2 * pixels * k4 + (k4 if gathered else 0)
    inputs = weights(words, LAYOUT), per_channel(ends, ENDS)
    call = layer.call("tw_conv2d_sparse_dsp_s8", params, inputs, scratch, pixels)
    if node.op == "CONV_2D":
        return call
    return replace(call, rows_call=lower_dense(node, target).rows_call)  # what adds up rows as they come


def _packed(c: Channels, size: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Weights int32 [words] and ends int32 [out, 3] (kernels_c/isa/dsp/dsp_sparse.h); ``size``: bytes of a block."""
    blocks = blocks_of(c.weights).astype(np.int32)
    both = 256 * blocks[..., 0::2] + blocks[..., 1::2]
    accept(bool(both.min(initial=0) >= -(1 << 15)), "a weight of -128 lies before a negative one")
    sizes = np.abs(blocks).sum(1)
    most = int((sizes @ np.array([255, 128, 255, 128])).max())
    accept(most < MOST, f"sums up to {most} do not fit 24 bits")
    accept(size * blocks.shape[1] <= 1 << 16, "its windows have so many inputs that gaps do not fit 16 bits")
    kept, stored = np.asarray(blocks.any(2)), both.astype("<i2").view("<i4")[..., 0]
    rows = [_row(*row, size) for row in zip(stored, kept, strict=True)]
    count, nbytes = kept.sum(1), np.array([row.nbytes for row in rows])
    info = -c.shift.astype(np.int32) | count % 2 << 5 | count // 2 % 2 << 6 | nbytes << 8
    starts = 2 * fold_zero(c.weights[:, 0::2], c.bias, -127)
    return np.concatenate(rows), np.column_stack([starts, c.mult, info]).astype(np.int32)


def _row(blocks: NDArray[np.int32], kept: NDArray[np.bool_], size: int) -> NDArray[np.int32]:
    """The weights of a channel, of whose blocks some are kept."""
    places = np.flatnonzero(kept)
    single = len(places) % 2
    gaps, stored = size * (np.diff(places, prepend=-1) - 1), blocks[places]
    first = np.array([gaps[0] << 16, stored[0]]) if single else np.zeros(0)
    pairs = np.column_stack([gaps[single::2] | gaps[single + 1 :: 2] << 16, stored[single:].reshape(-1, 2)])
    return np.concatenate([first, pairs.reshape(-1)]).astype(np.int64).astype(np.int32)


#: That of FULLY_CONNECTED needs scratch memory, which dense weights do not.
VARIANTS = (
    Variant("sparse_dsp", ("CONV_2D",), frozenset({"dsp"}), lower, ("INT8",), few=True),
    Variant("sparse_dsp", ("FULLY_CONNECTED",), frozenset({"dsp"}), lower, ("INT8",), larger=1, few=True),
)
