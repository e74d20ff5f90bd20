"""What quantised operators check alike: per-tensor quantisation."""

from __future__ import annotations

import math

import numpy as np

from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import need


def need_quant(node: Node, *tensors: Tensor) -> None:
    """ModelError unless every tensor has one usable scale and a zero point within its type."""
    for tensor in tensors:
        info = np.iinfo(tensor.dtype)
        need(math.isfinite(tensor.scale) and tensor.scale > 0, node, f"{tensor}: scale {tensor.scale} is not positive")
        need(info.min <= tensor.zero <= info.max, node, f"{tensor}: zero point {tensor.zero} is outside its type")
