"""All constants of a plan as one block of bytes, which is no part of the program: what lies where in it.

It begins with four words: what it is, the structure that it is for, its bytes, and the CRC-32 of all others. Then come
scale and zero point of every quantised input and output, and the constants, each at a multiple of its alignment.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from zlib import crc32

import numpy as np

from twinfer.runtime.constant import Constant
from twinfer.runtime.graph import Tensor
from twinfer.runtime.plan.plan import Plan
from twinfer.runtime.plan.solve.puzzle import aligned

#: The first word: "TWW1" if the lowest byte comes first.
MAGIC = int.from_bytes(b"TWW1", "little")

#: Bytes of the words at the beginning; the last of them is the CRC.
HEAD, CRC_AT = 16, 12


class Blob:
    """The places of constants: ``offsets`` of their first bytes, ``ends`` of the scales of inputs and outputs."""

    def __init__(self, plan: Plan, constants: Sequence[Constant]) -> None:
        self._constants = constants
        self.ends = ends_of(plan)
        least, at = plan.target.constant_alignment, HEAD + 8 * len(self.ends)
        self.alignment = max([least, 4, *(constant.array.itemsize for constant in constants)])
        self.offsets: dict[Constant, int] = {}
        for constant in constants:
            at = aligned(at, max(least, constant.array.itemsize))
            self.offsets[constant] = at
            at += constant.nbytes
        self.nbytes = aligned(at, 4)

    def content(self, structure: int) -> bytes:
        """The bytes, the lowest of a word first."""
        content = bytearray(self.nbytes)
        struct.pack_into("<III", content, 0, MAGIC, structure, self.nbytes)
        for tensor, at in self.ends.items():
            struct.pack_into("<fi", content, at, tensor.scale, tensor.zero)
        for constant, at in self.offsets.items():
            content[at : at + constant.nbytes] = np.ascontiguousarray(constant.array).tobytes()
        struct.pack_into("<I", content, CRC_AT, crc32(content[HEAD:], crc32(content[:CRC_AT])))
        return bytes(content)


def ends_of(plan: Plan) -> Mapping[Tensor, int]:
    """The quantised inputs and outputs, each with the byte where its scale lies, and its zero point behind it."""
    ends = dict.fromkeys((*plan.graph.inputs, *plan.graph.outputs))
    return {tensor: HEAD + 8 * i for i, tensor in enumerate(filter(quantized, ends))}


def quantized(tensor: Tensor) -> bool:
    """Whether the tensor holds integers of at most 16 bits with one usable scale and zero point."""
    quant = tensor.quant
    if quant is None or quant.per_channel or quant.scale.size != 1 or tensor.dtype.kind not in "iu":
        return False
    limits = np.iinfo(tensor.dtype)
    usable = tensor.dtype.itemsize <= 2 and limits.min <= tensor.zero <= limits.max
    return bool(usable and 0 < tensor.scale < np.inf)
