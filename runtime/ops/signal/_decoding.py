"""The three codings of TFLM's DECODE operator.

A coded tensor comes with ancillary bytes: 16 of a header (0: type, 1: version, from 4 on what belongs to the type), and
tables. Sources: TFLM kernels/decode_state_lut.cc, decode_state_prune.cc, decode_state_huffman.cc.
"""

from __future__ import annotations

import numpy as np

from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Array, Node, Tensor
from twinfer.runtime.op import need, need_type

#: Where tables begin.
HEADER = 16

#: Types that values of a table may have. HUFFMAN has fewer.
TYPES = ("BOOL", "FLOAT32", "INT8", "INT16", "INT32", "INT64")
HUFFMAN_TYPES = ("INT8", "INT16")


def _channels(node: Node, y: Tensor) -> Array:
    """The channel of every element, [elements]: by the scales of the output, along its first or its last dimension."""
    count = 1 if y.quant is None else y.quant.scale.size
    axis = 0 if y.quant is None else y.quant.axis
    need(axis == 0 or (axis == len(y.shape) - 1 and count > 1), node, f"{y} has scales along axis {axis}")
    need(y.size % count == 0, node, f"{y} cannot be cut into its {count} channels")
    if count == 1:
        return np.zeros(y.size, np.int64)
    last = axis == len(y.shape) - 1
    return np.arange(y.size) % count if last else np.arange(y.size) // (y.size // count)


def _numbers(data: bytes, count: int, width: int) -> Array:
    """``count`` numbers of ``width`` bits, the highest bit first."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8), count=count * width)
    places: Array = 1 << np.arange(width - 1, -1, -1)
    return np.asarray(bits.reshape(count, width).astype(np.int64) @ places)


def _table(node: Node, y: Tensor, ancillary: bytes) -> Array:
    """The values behind the header."""
    need_type(node, y, *TYPES)
    size = y.dtype.itemsize
    raw = ancillary[HEADER:]
    return np.frombuffer(raw[: len(raw) // size * size], y.dtype if y.type != "BOOL" else np.uint8)


def lut(node: Node, y: Tensor, data: bytes, ancillary: bytes) -> Array:
    """Every element is a number of 1 to 7 bits, its place in the table of its channel."""
    width, stride = ancillary[5] & 7, ancillary[6]
    need(width > 0, node, f"the indices of {y} have no bits")
    enough = len(data) * 8 >= y.size * width
    need(enough, node, f"{y} needs {y.size} indices of {width} bits, there are {len(data)} bytes")
    table = _table(node, y, ancillary)
    places = _channels(node, y) * stride + _numbers(data, y.size, width)
    most = int(places.max(initial=-1))
    need(most < table.size, node, f"an index of {y} is {most}, its table has {table.size} values")
    values: Array = table[places].astype(y.dtype).reshape(y.shape)
    return values


def pruned(node: Node, y: Tensor, data: bytes, ancillary: bytes) -> Array:
    """A bit per element: 1 is the next value of the table, 0 the zero point."""
    need(len(data) * 8 >= y.size, node, f"{y} needs {y.size} bits, there are {len(data)} bytes")
    table, kept = _table(node, y, ancillary), _numbers(data, y.size, 1) == 1
    count = int(kept.sum())
    need(count <= table.size, node, f"{y} keeps {count} values, its table has {table.size}")
    channels, zeros = _channels(node, y), np.zeros(1, np.int64) if y.quant is None else y.quant.zero_point
    if y.type != "INT8":
        need(int(zeros[0]) == 0, node, f"{y} must have a zero point of 0")
        zeros = np.zeros(channels.max(initial=0) + 1, np.int64)
    values = zeros[channels].astype(np.int8).astype(table.dtype)
    values[kept] = table[:count]
    return values.astype(y.dtype).reshape(y.shape)


def huffman(node: Node, y: Tensor, data: bytes, ancillary: bytes) -> Array:
    """A prefix code, decoded by tables: each tells a symbol or the next table."""
    need_type(node, y, *HUFFMAN_TYPES)
    wide, first = ancillary[5] & 1, (ancillary[5] >> 4) + 1
    need(bool(wide) or y.type == "INT8", node, f"{y} needs tables of 32 bits")
    need(len(data) * 8 >= y.size, node, f"{y} needs {y.size} codes, there are {len(data)} bytes")
    size = 4 if wide else 2
    raw = ancillary[HEADER:]
    table = np.frombuffer(raw[: len(raw) // size * size], f"<u{size}").tolist()
    try:
        symbols = _symbols(table, (8 * size - 5, first), data, y.size)
    except IndexError:
        raise ModelError(f"{node}: the codes of {y} lead out of its table or its {len(data)} bytes") from None
    return np.array(symbols, np.int64).astype(y.dtype).reshape(y.shape)


def _symbols(table: list[int], form: tuple[int, int], data: bytes, count: int) -> list[int]:
    """``form``: bits of a value in a table's entry, and bits that choose one in the first table. Above the value are 4
    bits of a number and one that marks a symbol. IndexError where codes lead out of the table or the data."""
    (shift, first), padded, at = form, data + bytes(8), 0
    symbols: list[int] = []
    for _ in range(count):
        used, place = first, 0
        while True:
            place += _bits(padded, at, used)
            entry = table[place]
            number = entry >> shift & 15
            if entry >> (shift + 4):
                break
            at, used, place = at + used, number + 1, place + (entry & ((1 << shift) - 1))
        at += min(used, number)  # a symbol's code may be shorter than what chose it
        if at > 8 * len(data) or number == 0:
            raise IndexError
        symbols.append(entry & 0xFFFF)
    return symbols


def _bits(padded: bytes, at: int, count: int) -> int:
    """Up to 16 bits from bit ``at`` on; IndexError outside of the bytes."""
    word = padded[at >> 3 : (at >> 3) + 4]
    if len(word) < 4:
        raise IndexError
    return int.from_bytes(word, "big") >> (32 - (at & 7) - count) & ((1 << count) - 1)
