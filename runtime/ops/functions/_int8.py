"""Functions of one int8 value that TFLite computes by arithmetic of their own: ABS, RSQRT and SQRT."""

from __future__ import annotations

import math

import numpy as np

from twinfer.runtime.fixed_point import quantize_multiplier, requantize
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.core import gemmlowp as _gemmlowp


def magnitude(node: Node, q: Array) -> Array:
    """Source: TFLM elementwise.cc, AbsEvalQuantized."""
    x, y = node.input(0), node.output
    steps = np.abs(q.astype(np.int64) - x.zero)
    if x.scale != y.scale:
        steps = requantize(steps, *quantize_multiplier(x.scale / y.scale))
    return np.asarray(np.clip(steps + y.zero, -128, 127), np.int8)


def by_root(node: Node, q: Array) -> Array:
    """Source: TFLM elementwise.cc, RsqrtEvalQuantized; up to zero the greatest value (it refuses negative ones)."""
    x, y = node.input(0), node.output
    mult, shift = quantize_multiplier(1 / (math.sqrt(x.scale) * y.scale))
    stored = []
    for value in (q.astype(np.int64) - x.zero).ravel():
        if value <= 0:
            stored.append(127)
            continue
        root, right = _gemmlowp.inverse_root(int(value))
        data = requantize(np.array(1), root, 20 - right)
        stored.append(int(requantize(data, mult, shift - 20)) + y.zero)
    return np.asarray(np.clip(np.array(stored), -128, 127), np.int8).reshape(q.shape)


def root(node: Node, q: Array) -> Array:
    """Source: LiteRT elementwise.cc, SqrtEvalQuantized: in float32, rounded towards zero; 0 for negative values."""
    x, y = node.input(0), node.output
    real = np.float32(x.scale) * np.maximum(q.astype(np.int64) - x.zero, 0).astype(np.float32)
    with np.errstate(over="ignore"):
        steps = np.minimum(np.sqrt(real) / np.float32(y.scale), 1e6).astype(np.int64)
    return np.asarray(np.clip(steps + y.zero, -128, 127), np.int8)
