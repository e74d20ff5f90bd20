"""What quantised operators check and compute alike: per-tensor quantisation, tables of one 8-bit value."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.graph import Node, Tensor
from twinfer.runtime.op import Array, need


def need_quant(node: Node, *tensors: Tensor) -> None:
    """ModelError unless every tensor has one usable scale and a zero point within its type."""
    for tensor in tensors:
        info = np.iinfo(tensor.dtype)
        need(math.isfinite(tensor.scale) and tensor.scale > 0, node, f"{tensor}: scale {tensor.scale} is not positive")
        need(info.min <= tensor.zero <= info.max, node, f"{tensor}: zero point {tensor.zero} is outside its type")


def byte_table(source: str, function: Callable[[NDArray[np.int64]], Array]) -> Array:
    """``function`` of every value of the 8-bit type ``source``, for ``tw_table_8``: by unsigned byte."""
    values: NDArray[Any] = np.arange(256, dtype=np.uint8)
    if source == "INT8":
        values = values.view(np.int8)
    return np.ascontiguousarray(function(values.astype(np.int64)))
