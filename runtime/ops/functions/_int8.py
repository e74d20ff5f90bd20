"""Functions of one int8 value that TFLite computes by arithmetic of their own: ABS, RSQRT and SQRT."""

from __future__ import annotations

import math

import numpy as np

from twinfer.runtime.fixed_point import quantize_multiplier, requantize
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import unsupported
from twinfer.runtime.ops.core import gemmlowp as _gemmlowp


def check(node: Node) -> None:
    """UnsupportedOperatorError for a multiplier of ABS or RSQRT beyond 30 bits: TFLM's products then overflow."""
    x, y = node.input(0).scale, node.output.scale
    if (1 / math.sqrt(x) if node.op == "RSQRT" else x) / y > (1 << 30) - 1:
        raise unsupported(node, f"the scale of {node.output} is too small beside its input's; requantise the model")


def magnitude(node: Node, q: Array) -> Array:
    """Source: TFLM elementwise.cc, AbsEvalQuantized."""
    x, y = node.input(0), node.output
    steps = np.abs(q.astype(np.int64) - x.zero)
    if x.scale != y.scale:
        steps = requantize(steps, *quantize_multiplier(x.scale / y.scale))
    return np.asarray(np.clip(steps + y.zero, -128, 127), np.int8)


def root_multiplier(node: Node) -> tuple[int, int]:
    """Multiplier and shift for 2^20 / sqrt(stored value). Source: TFLM elementwise.cc, SetRsqrtOutputMultiplier."""
    mult, shift = quantize_multiplier(1 / (math.sqrt(node.input(0).scale) * node.output.scale))
    return (mult, shift - 20) if shift >= -11 else (0, 0)


def by_root(node: Node, q: Array) -> Array:
    """Of int8 and int16. Source: TFLM elementwise.cc, RsqrtEvalQuantized; up to zero, it gives the greatest value (TFLM
    refuses negative ones)."""
    dtype = node.output.dtype
    most = np.iinfo(dtype).max
    values, places = np.unique(q.astype(np.int64) - node.input(0).zero, return_inverse=True)
    mult, right = _gemmlowp.inverse_root(np.maximum(values, 0))
    data = requantize(np.array(1), mult, 20 - right)
    stored = np.where(values > 0, requantize(data, *root_multiplier(node)) + node.output.zero, most)
    return np.asarray(stored.clip(-most - 1, most), dtype)[places].reshape(q.shape)


def root(node: Node, q: Array) -> Array:
    """Source: LiteRT elementwise.cc, SqrtEvalQuantized: in float32, rounded towards zero; 0 for negative values."""
    x, y = node.input(0), node.output
    real = np.float32(x.scale) * np.maximum(q.astype(np.int64) - x.zero, 0).astype(np.float32)
    with np.errstate(over="ignore"):
        steps = np.minimum(np.sqrt(real) / np.float32(y.scale), 1e6).astype(np.int64)
    return np.asarray(np.clip(steps + y.zero, -128, 127), np.int8)
