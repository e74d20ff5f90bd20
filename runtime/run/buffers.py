"""Memory as numpy arrays, aligned for every kernel."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Array

_ALIGN = 64


def aligned_bytes(size: int) -> Array:
    """Zeroed uint8 array of ``size`` bytes whose address is a multiple of 64."""
    try:
        raw = np.zeros(size + _ALIGN, np.uint8)
    except MemoryError:
        raise ModelError(f"the model needs {size} bytes in one piece, which this machine does not give") from None
    start = -raw.ctypes.data % _ALIGN
    return raw[start : start + size]


def aligned_copy(array: Array) -> Array:
    """The array itself if it is contiguous and its address is a multiple of 64, else a copy that is.

    Kernels need 16; a vector of 64 bytes that lies across two cache lines is read twice.
    """
    if array.flags.c_contiguous and array.ctypes.data % _ALIGN == 0:
        return array
    copy = aligned_bytes(array.nbytes)
    copy[:] = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
    return copy
