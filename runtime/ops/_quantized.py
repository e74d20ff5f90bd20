"""What operators with int8 tensors check alike."""

from __future__ import annotations

import math

import numpy as np

from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import need


def need_quantized(node: Node, *tensors: Tensor) -> None:
    """Raise ModelError unless each tensor has one usable scale and a zero point that its type can hold."""
    for tensor in tensors:
        info = np.iinfo(tensor.dtype)
        need(0 < tensor.scale < math.inf, node, f"{tensor} has scale {tensor.scale}: it must be positive and finite")
        need(info.min <= tensor.zero <= info.max, node, f"{tensor} has zero point {tensor.zero}, outside its type")
