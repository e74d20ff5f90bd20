"""What operators with int8 tensors check alike."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import need

_LEAST, _MOST = 2.0**-100, 2.0**100  # scales whose products and quotients float32 can hold


def need_quantized(node: Node, *tensors: Tensor) -> None:
    """Raise ModelError unless each tensor has one usable scale and a zero point that its type can hold."""
    for tensor in tensors:
        info = np.iinfo(tensor.dtype)
        need(_LEAST < tensor.scale < _MOST, node, f"{tensor} has scale {tensor.scale}: it must be positive and finite")
        need(info.min <= tensor.zero <= info.max, node, f"{tensor} has zero point {tensor.zero}, outside its type")
