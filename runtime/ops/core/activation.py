"""The range of outputs that a fused activation allows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import unsupported
from twinfer.runtime.ops.core.quantized import unscaled

#: Fused activation -> real range; None: unlimited on that side.
RANGES: dict[str, tuple[float | None, float | None]] = {
    "NONE": (None, None),
    "RELU": (0.0, None),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}

_ENDLESS = 1 << 31  # more steps than any range has

FLOAT_MAX = float(np.finfo(np.float32).max)


def _range(node: Node) -> tuple[float | None, float | None]:
    name = str(node.options.get("fused_activation_function", "NONE"))
    if name not in RANGES:
        raise unsupported(node, f"fused activation {name} has no kernel; supported: {', '.join(RANGES)}")
    return RANGES[name]


def float_range(node: Node, endless: float = FLOAT_MAX) -> tuple[float, float]:
    """Least and greatest output of a float node; ``endless`` stands where there is no bound.

    That is the largest finite float32 for most operators, as in TFLite: their infinite sums saturate. RELU itself, and
    layers that TFLite computes vector by vector (``vector_range``), have no such bound.
    """
    low, high = _range(node)
    return (-endless if low is None else low, endless if high is None else high)


def vector_range(node: Node) -> tuple[float, float]:
    """The bounds of ``bounded``: infinite where there is none."""
    return float_range(node, math.inf)


def bounded(x: Array, low: float, high: float) -> Array:
    """Values from low to high; a NaN becomes low, unless low is infinite. Source: LiteRT's ApplyActivationToVector."""
    raised = x if math.isinf(low) else np.where(x > low, x, x.dtype.type(low))
    return np.asarray(np.minimum(raised, x.dtype.type(high)))


def output_range(node: Node) -> dict[str, Any]:
    """The params ``low`` and ``high``: what a node clamps its output to; int32's bounds bound nothing."""
    output = node.output
    if output.type == "FLOAT32":
        low, high = float_range(node)
    elif output.type in ("INT32", "INT64", "UINT32") or unscaled(node):
        low, high = integer_range(node)
    else:
        low, high = quantized_range(node, output)
    return {"low": low, "high": high}


def integer_range(node: Node) -> tuple[int, int]:
    """Least and greatest output of a node over integers without quantisation, of any type."""
    low, high = _range(node)
    return (-(2**31) if low is None else int(low), 2**31 - 1 if high is None else int(high))


def quantized_range(node: Node, output: Tensor) -> tuple[int, int]:
    """Least and greatest stored value of a quantised node.

    Source: TFLite's CalculateActivationRangeQuantized; bounds are divided by the scale in float32 and
    rounded half away from zero.
    """
    least, most = output.limits
    low, high = _range(node)
    if low is not None:
        least = max(least, _quantize(low, output))
    if high is not None:
        most = min(most, _quantize(high, output))
    return least, most


def _quantize(real: float, output: Tensor) -> int:
    """The stored value of a bound, which may be far outside of the type."""
    if not real:
        return output.zero
    with np.errstate(over="ignore"):
        value = float(np.float32(real) / np.float32(output.scale))
    steps = math.floor(min(abs(value), _ENDLESS) + 0.5)
    return output.zero + int(math.copysign(steps, value))


def clamped(values: Array, low: int, high: int) -> Array:
    """Integers of any type between ``integer_range``'s bounds, in their type; int32's bounds bound nothing."""
    info = np.iinfo(values.dtype)
    least = info.min if low == -(2**31) else max(low, info.min)
    most = info.max if high == 2**31 - 1 else high
    return np.asarray(np.minimum(np.maximum(values, values.dtype.type(least)), values.dtype.type(most)))
