"""Weights as the kernels over 16 lanes read them, padding to whole blocks, and the names of layouts."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.graph import Array

#: Output channels that kernels_c/isa/wide/wide.h takes at once.
LANES = 16

#: Rows of a panel, pixels or batches, that kernels_c/isa/wide/wide.h takes at once: TW_TILE_ROWS.
ROWS = 8

#: Layouts of weights, as emitted C names them. Blocks also hold what else a channel has.
LANES_S8 = "packed [out / 16][k / 4][16][4]"
LANES_F32 = "packed [out / 16][k][16]"
LANES_HALVES = "packed [out / 16][k / 2][16][2]"
LANES_EIGHTS = "packed [out / 16][k / 8][16][8]"
LANES_S16 = "packed [k_h * k_w / 2][out][2]"
PAIRS = "packed in pairs of channels"
FOURS = "packed in fours of channels"
EIGHTS = "packed in eights of channels"
BLOCKS = "packed in blocks of 16 channels"

#: The layout of biases, multipliers and shifts.
ENDS = "bias, multiplier and shift of a channel together"


def padded(values: Array, multiple: int = LANES, axis: int = 0) -> Array:
    """``values`` with zeros behind, so that the extent of ``axis`` is a multiple of ``multiple``; itself if it is."""
    if values.shape[axis] % multiple == 0:
        return values
    shape = list(values.shape)
    shape[axis] += -shape[axis] % multiple
    whole = np.zeros(shape, values.dtype)
    whole[tuple(map(slice, values.shape))] = values
    return whole


def pack_lanes(w: Array, at_once: int) -> Array:
    """Weights [out, k] for lanes that multiply ``at_once`` of them: [out / 16][k / at_once][16][at_once]."""
    blocks = padded(padded(w, LANES, 0), at_once, 1)
    out, k = blocks.shape
    return np.ascontiguousarray(blocks.reshape(out // LANES, LANES, k // at_once, at_once).transpose(0, 2, 1, 3))


def pack_s8(w: Array) -> Array:
    """int8 weights [out, k] as kernels_c/isa/wide/wide.h reads them: [out / 16][k / 4][16][4]."""
    return pack_lanes(w, 4)


def pack_f32(w: Array) -> Array:
    """float32 weights [out, k] as [out / 16][k][16]."""
    blocks = padded(w, LANES, 0)
    return np.ascontiguousarray(blocks.reshape(-1, LANES, w.shape[1]).transpose(0, 2, 1))
