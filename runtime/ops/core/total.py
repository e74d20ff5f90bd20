"""Sums of any number of int8 values in steps of an output: ``tw_total`` of kernels_c/core/total.h."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.fixed_point import quantize_multiplier
from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import need, unsupported
from twinfer.runtime.ops.core.quantized import need_quant

#: Bits by which TFLM shifts values left before it adds them, after it has halved them.
LEFT_SHIFT = 19

#: More values of up to 255 steps might leave int32.
MOST = (1 << 23) - 1

FAULT = "TFLM adds the zero point of the input once too often"
OVERFLOW = "TFLM's sums leave int32 from 17 values on"


def check_total(node: Node, x: Tensor, count: int) -> None:
    """Raise unless ``count`` values quantised as ``x`` can be added and rescaled to the output."""
    need_quant(node, x, node.output)
    if _multiplier(x, node.output)[1] > 0:
        raise unsupported(node, f"the scale of {node.output} is too small beside its inputs'; requantise the model")
    need(count <= MOST, node, f"a sum of {count} values of {x} may not fit int32: at most {MOST}")


def _multiplier(x: Tensor, y: Tensor) -> tuple[int, int]:
    return quantize_multiplier(x.scale / ((1 << LEFT_SHIFT) * y.scale))


def total_params(x: Tensor, y: Tensor) -> dict[str, int]:
    """The members of ``tw_total``."""
    mult, shift = _multiplier(x, y)
    return {"zero": x.zero, "out_zero": y.zero, "mult": mult, "shift": -shift}


def rescaled(sums: Array, x: Tensor, y: Tensor) -> Array:
    """int64 sums of values less their zero point as int8. Source: TFLM reference_ops::AddN, but in 64 bits."""
    mult, shift = _multiplier(x, y)
    high = (sums * mult + (1 << 31 - LEFT_SHIFT - 1)) >> (31 - LEFT_SHIFT)
    steps = np.sign(high) * ((np.abs(high) + ((1 << -shift) >> 1)) >> -shift)
    return np.asarray(np.clip(steps + y.zero, -128, 127), np.int8)
