"""DEPTHWISE_CONV_2D over Helium: when depthwise_conv2d_mve.h applies, and the constants as it reads them."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.constant import weights
from twinfer.runtime.graph import Node
from twinfer.runtime.op import Array, Call, Weights
from twinfer.runtime.ops.core.activation import quantized_range
from twinfer.runtime.ops.core.channels import epilogue, fold_zero, multipliers
from twinfer.runtime.ops.core.packing import BLOCKS, LANES, padded
from twinfer.runtime.ops.core.window import Window
from twinfer.runtime.params import Param

#: The kernel keeps k_h rows of 16 channels in scratch, whose bytes this limits.
MOST_SCRATCH = 1 << 14

#: Byte of a block whose sums, multipliers and shifts lie at 0, 1, ... (mve_s8.h: even and odd halves, twice).
ORDER = np.array([4 * lane + byte for byte in (0, 2, 1, 3) for lane in range(4)])


def lower(node: Node, g: Window, w: Array, bias: Array, macs: int) -> Call | None:
    """The call over Helium, None where it does not apply; w: int8 [1, k_h, k_w, channels], bias: int32 [channels]."""
    x, y = node.input(0), node.output
    pixels = 2 if (g.in_c, g.stride_w) == (8, 1) else 1
    steps = -(-g.out_w // pixels) * pixels
    row = LANES * max(g.pad_w + g.in_w, (steps - 1) * g.stride_w + g.k_w)
    mult, shift = multipliers(node, g.out_c)
    if g.in_c != g.out_c or g.dilated or g.k_h * row > MOST_SCRATCH:
        return None
    if w.min() == -128 or shift.max() > 0 or shift.min() < -31 or not _fits(w, bias):
        return None
    low, high = quantized_range(node, y)
    nine = (g.k_h, g.k_w, low, high) == (3, 3, -128, 127) and shift.max() < 0
    folded = fold_zero(w.reshape(-1, g.out_c).T, bias, x.zero)
    blocks = _blocks(w.reshape(-1, g.out_c), folded, mult, shift, pixels)
    kernel = "tw_depthwise_conv2d_nine_mve_s8" if nine else "tw_depthwise_conv2d_mve_s8"
    numbers = {"twice": pixels - 1, "row": row, "in_zero": x.zero}
    params: dict[str, Param] = {"window": g.params, "end": epilogue(node), **numbers}
    stored = Weights(rows=len(blocks), head=blocks.shape[1] - LANES * len(w.reshape(-1, g.out_c)))
    return Call(kernel, params, (x, weights(blocks, BLOCKS)), (y,), g.k_h * row, macs=macs, weights=stored)


def _fits(w: Array, bias: Array) -> bool:
    """Whether no sum leaves int32, not even with the output's zero point added."""
    most = 256 * np.abs(w.astype(np.int64)).sum(axis=(0, 1, 2)) + np.abs(bias.astype(np.int64))
    return int(most.max()) < (1 << 31) - 256


def _blocks(w: Array, bias: Array, mult: Array, shift: Array, times: int) -> Array:
    """Constants of every 16 channels, those of 8 twice: shift, bias, mult, weights [taps][16]; int8 [blocks][bytes]."""
    ends = [padded(np.tile(v, times)).reshape(-1, LANES)[:, ORDER] for v in (shift, bias, mult)]
    taps = padded(np.tile(w, (1, times)), axis=1).reshape(len(w), -1, LANES).transpose(1, 0, 2)
    parts = [np.ascontiguousarray(v).reshape(len(taps), -1).view(np.int8) for v in (*ends, taps)]
    return np.concatenate(parts, axis=1)
