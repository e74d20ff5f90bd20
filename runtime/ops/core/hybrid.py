"""LiteRT's dynamic-range ("hybrid") operators: float activations, quantised at run time, meet int8 weights."""

from __future__ import annotations

import math

import numpy as np

from twinfer.runtime import constant
from twinfer.runtime.constant import Constant
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.core.channels import weight_scales


def is_hybrid(node: Node) -> bool:
    """Whether float activations meet int8 weights."""
    return node.input(0).type == "FLOAT32" and node.input(1).type == "INT8"


def hybrid_ends(node: Node, channels: int) -> tuple[Array, Array]:
    """Scales of the weights and the bias of a hybrid node, float32 [channels]."""
    bias = node.optional(2)
    start = np.zeros(channels, np.float32) if bias is None or bias.data is None else bias.data.reshape(-1)
    return weight_scales(node, channels).astype(np.float32), start


def hybrid_constants(node: Node, channels: int) -> tuple[Constant, Constant]:
    """``hybrid_ends`` as constants of a call."""
    scales, start = hybrid_ends(node, channels)
    return constant.requantize(scales), constant.bias(start)


def quantize_dynamic(x: Array, symmetric: bool) -> tuple[Array, np.float32, int]:
    """Float values as int8 with the scale and zero point of their own range.

    Source: LiteRT's SymmetricQuantizeFloats and AsymmetricQuantizeFloats; its range is taken in float32, and the zero
    point is added to what is rounded. A NaN has no part in the range and becomes the least value.
    """
    low, high = (np.float32(least.reduce(x, axis=None, initial=0)) for least in (np.fmin, np.fmax))
    if low >= high:
        return np.zeros(x.shape, np.int8), np.float32(1), 0
    least = -127 if symmetric else -128
    with np.errstate(all="ignore"):
        if symmetric:
            span = max(-low, high)
            scale, zero, inverse = span / np.float32(127), 0, np.float32(127) / span
        else:
            step = float(high - low) / 255.0
            at_low, at_high = float(low) / step, float(high) / step
            nudged = -128.0 - at_low if 128.0 + abs(at_low) < 127.0 + abs(at_high) else 127.0 - at_high
            whole = math.copysign(math.floor(abs(nudged) + 0.5), nudged) if math.isfinite(nudged) else nudged
            zero = 0 if math.isnan(whole) else int(np.clip(whole, -128, 127))
            scale, inverse = np.float32(step), np.float32(1) / np.float32(step)
        real = x * inverse
        rounded = np.copysign(np.floor(np.abs(real.astype(np.float64)) + 0.5), real) + zero
    return np.nan_to_num(rounded, nan=least).clip(least, 127).astype(np.int8), scale, zero


def symmetric_hybrid(node: Node) -> bool:
    """Whether a hybrid node quantises its images symmetrically: LiteRT's CONV_2D does if all channels' scales agree."""
    quant = node.input(1).quant
    return node.op == "CONV_2D" and quant is not None and bool((quant.scale == quant.scale[0]).all())
