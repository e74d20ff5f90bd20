"""Integers of 2 or 4 bits, several per byte, the first in the lowest bits, as TFLite stores them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def pack(values: NDArray[Any], bits: int) -> NDArray[np.uint8]:
    """Integers of 2 or 4 bits, any shape -> uint8 [bytes]."""
    per_byte = 8 // bits
    flat = values.reshape(-1).astype(np.uint8) & ((1 << bits) - 1)
    groups = np.pad(flat, (0, -flat.size % per_byte)).reshape(-1, per_byte)
    packed: NDArray[np.uint8] = np.bitwise_or.reduce(groups << _shifts(bits), axis=1).astype(np.uint8)
    return packed


def unpack(data: NDArray[np.uint8], bits: int, shape: tuple[int, ...]) -> NDArray[np.int8]:
    """uint8 [bytes] -> signed integers of 2 or 4 bits as int8 of ``shape``."""
    fields = (data.reshape(-1, 1) >> _shifts(bits)).astype(np.uint8) << (8 - bits)
    count = int(np.prod(shape))
    return fields.astype(np.uint8).view(np.int8).reshape(-1)[:count].reshape(shape) >> (8 - bits)


def _shifts(bits: int) -> NDArray[np.uint8]:
    return np.arange(0, 8, bits, dtype=np.uint8)
