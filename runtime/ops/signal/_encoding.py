"""Coded tensors for the cases of TFLM's DECODE operator: the reverse of ``_decoding.py``."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from twinfer.runtime.graph import Array

#: Symbol -> its code, as text of 0 and 1.
Codes = Mapping[int, str]

#: The most bits that choose an entry of a table behind the first.
LATER = 3


def header(kind: int, *own: int, version: int = 1) -> bytes:
    """16 bytes; ``own`` are those from byte 4 on, which belong to the type."""
    return bytes([kind, version, 0, 0, *own]).ljust(16, b"\0")


def packed(numbers: Sequence[int], width: int) -> bytes:
    """Numbers of ``width`` bits, the highest bit first."""
    return _bytes("".join(f"{number:0{width}b}" for number in numbers))


def _bytes(bits: str) -> bytes:
    return bytes(int(bits[i : i + 8].ljust(8, "0"), 2) for i in range(0, len(bits), 8))


def huffman(values: Array, wide: bool, first: int) -> tuple[bytes, bytes]:
    """Codes of the values, and the ancillary bytes; ``first`` bits choose an entry of the first table."""
    codes = _codes(values.reshape(-1).tolist())
    size = 4 if wide else 2
    table: list[int] = []
    _add(table, codes, first, size)
    data = _bytes("".join(codes[v] for v in values.reshape(-1).tolist()))
    tables = np.array(table, f"<u{size}").tobytes()
    return data + bytes(-len(data) % 4), header(1, 1, int(wide) | (first - 1) << 4) + tables


def _codes(values: Sequence[int]) -> Codes:
    heap = [(count, i, {value: ""}) for i, (value, count) in enumerate(sorted(Counter(values).items()))]
    while len(heap) > 1:
        (a, _, low), (b, i, high) = heapq.heappop(heap), heapq.heappop(heap)
        both = {v: "0" + code for v, code in low.items()} | {v: "1" + code for v, code in high.items()}
        heapq.heappush(heap, (a + b, i, both))
    return heap[0][2]


def _add(table: list[int], codes: Codes, bits: int, size: int) -> int:
    """Append a table of 2^bits entries, and behind it those that it leads to; returns where it begins."""
    start, shift = len(table), 8 * size - 5
    table += [0] * (1 << bits)
    for i in range(1 << bits):
        prefix = f"{i:0{bits}b}"
        whole = [(v, code) for v, code in codes.items() if prefix.startswith(code)]
        for value, code in whole:
            table[start + i] = 1 << (shift + 4) | len(code) << shift | value & (0xFFFF if size == 4 else 0xFF)
        rest = {v: code[bits:] for v, code in codes.items() if code.startswith(prefix) and len(code) > bits}
        if rest and not whole:
            more = min(LATER, max(map(len, rest.values())))
            table[start + i] = (more - 1) << shift | (_add(table, rest, more, size) - start - i)
    return start
