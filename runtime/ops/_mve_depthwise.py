"""DEPTHWISE_CONV_2D over Helium: when kernels_c/depthwise_conv2d_mve.h applies, and the constants as it reads them."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from twinfer.runtime.graph import Node
from twinfer.runtime.op import Array, Call
from twinfer.runtime.ops import _conv
from twinfer.runtime.ops._activation import quantized_range
from twinfer.runtime.ops._conv import LANES, Window

#: The kernel keeps k_h rows of 16 channels in scratch; more than this is no small window.
MOST_SCRATCH = 1 << 14

#: Byte of a block whose sums, multipliers and shifts lie at 0, 1, ... (mve_s8.h: even and odd halves, twice).
ORDER = np.array([4 * lane + byte for byte in (0, 2, 1, 3) for lane in range(4)])


def lower(node: Node, g: Window, w: Array, bias: Array, macs: int) -> Call | None:
    """The call over Helium, None where it does not apply; w: int8 [1, k_h, k_w, channels], bias: int32 [channels]."""
    twice = (g.in_c, g.stride_w, g.k_h, g.k_w) == (8, 1, 3, 3)
    row = _row(g, 8 if twice else LANES)
    folded = _conv.fold_zero(w.reshape(-1, g.out_c).T, bias, node.input(0).zero)
    mult, shift = _conv.multipliers(node, g.out_c)
    if g.in_c != g.out_c or (g.dilation_h, g.dilation_w) != (1, 1) or g.k_h * row > MOST_SCRATCH:
        return None
    if w.min() == -128 or shift.max() > 0 or shift.min() < -31 or not _fits(node, g, w, bias):
        return None
    form = "twice_" if twice else "nine_" if (g.k_h, g.k_w) == (3, 3) else ""
    blocks = _blocks(w.reshape(-1, g.out_c), folded, mult, shift, 2 if twice else 1)
    low, high = quantized_range(node, node.output)
    shape = {k: v for k, v in asdict(g).items() if k not in ("out_c", "dilation_h", "dilation_w")}
    ends = {"in_zero": node.input(0).zero, "out_zero": node.output.zero, "act_min": low, "act_max": high}
    call = f"tw_depthwise_conv2d_{form}mve_s8"
    return Call(call, {**shape, "row": row, **ends}, (node.input(0), blocks), (node.output,), g.k_h * row, macs=macs)


def _row(g: Window, pitch: int) -> int:
    """Bytes of a row in scratch: the image's and all that the windows reach, whole vectors."""
    pixels = max(g.pad_w + g.in_w, (g.out_w - 1) * g.stride_w + g.k_w + LANES // pitch - 1)
    return -(-pixels * pitch // LANES) * LANES


def _fits(node: Node, g: Window, w: Array, bias: Array) -> bool:
    """Whether no sum leaves int32, not even with the output's zero point added."""
    most = 256 * np.abs(w.astype(np.int64)).reshape(-1, g.out_c).sum(axis=0) + np.abs(bias.astype(np.int64))
    return int(most.max()) < (1 << 31) - 256


def _blocks(w: Array, bias: Array, mult: Array, shift: Array, times: int) -> Array:
    """Constants of every 16 channels, those of 8 twice: shift, bias, mult, weights [taps][16]; int8 [blocks][bytes]."""
    ends = [_conv.padded(np.tile(v, times)).reshape(-1, LANES)[:, ORDER] for v in (shift, bias, mult)]
    taps = _conv.padded(np.tile(w, (1, times)), axis=1).reshape(len(w), -1, LANES).transpose(1, 0, 2)
    parts = [np.ascontiguousarray(v).reshape(len(taps), -1).view(np.int8) for v in (*ends, taps)]
    return np.concatenate(parts, axis=1)
