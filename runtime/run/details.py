"""The details of a tensor, as LiteRT's interpreter gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from twinfer.runtime.graph import DTYPES, Tensor

if TYPE_CHECKING:
    from twinfer.runtime.op import Shape

#: Tensor type -> what LiteRT's details call its dtype.
NUMPY_TYPES: Mapping[str, type] = {
    **{name: dtype.type for name, dtype in DTYPES.items()},
    "STRING": np.bytes_,
    "RESOURCE": np.object_,
    "VARIANT": np.object_,
    "INT2": np.int8,
    "INT4": np.int8,
    "UINT4": np.uint8,
}


def details(tensor: Tensor, index: int, shape: Shape) -> dict[str, Any]:
    """LiteRT's details dictionary of a tensor; ``shape`` is the present one or one that was asked for."""
    quant = tensor.quant
    scales = quant.scale if quant is not None else np.zeros(0, np.float32)
    zeros = (quant.zero_point if quant is not None else np.zeros(0)).astype(np.int32)
    single = (float(scales[0]), int(zeros[0])) if scales.size == 1 else (0.0, 0)
    return {
        "name": tensor.name,
        "index": index,
        "shape": np.array(shape, np.int32),
        "shape_signature": np.array(tensor.shape_signature or tensor.shape, np.int32),
        "dtype": NUMPY_TYPES.get(tensor.type),
        "quantization": single,
        "quantization_parameters": {
            "scales": scales,
            "zero_points": zeros,
            "quantized_dimension": quant.axis if quant is not None else 0,
            "block_size": 0,
        },
        "sparsity_parameters": {},
    }
