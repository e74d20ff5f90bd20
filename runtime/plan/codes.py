"""Lossless codings of weights: numbers into a table of values, Huffman codes, a bitmap of what is not zero.

Each takes blocks, int8 [slices, rows, n], n a multiple of 8, and gives the constant arrays that its decoder
(kernels_c/coding/decode_<coding>.h) reads. Every slice can be decoded by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.graph import Array

Blocks = NDArray[np.int8]

#: The longest Huffman code, in bits: the table that decodes them has 2**LONGEST entries of 2 bytes. Measured on pruned
#: and clustered models: 9 bits cost 0.05 % more than codes of any length, 8 bits 0.8 %.
LONGEST = 9

#: The most bits of a number into a table of values, and the most for which the decoder makes a table of pairs.
MOST_BITS, PAIR_BITS = 7, 4


class Table(NamedTuple):
    """A table that the decoder makes at run time: its kernel, its constants, and its size in bytes."""

    kernel: str
    params: Mapping[str, int]
    inputs: tuple[Array, ...]
    nbytes: int


class Code(NamedTuple):
    """Coded blocks: the decoder's kernel, its params, and its constants in order.

    ``table`` is made first and takes the place of the input that is None. ``strides`` are the bytes by which the inputs
    advance per slice. ``about`` describes the coding in words.
    """

    kernel: str
    inputs: tuple[Array | None, ...]
    strides: tuple[int, ...]
    about: str
    params: Mapping[str, int]
    table: Table | None = None

    @property
    def kernels(self) -> frozenset[str]:
        """The kernels that decode it."""
        return frozenset({self.kernel} | ({self.table.kernel} if self.table else set()))

    @property
    def nbytes(self) -> int:
        """Bytes of all its constants."""
        return sum(a.nbytes for a in (*self.inputs, *(self.table.inputs if self.table else ())) if a is not None)


def lut(blocks: Blocks, halves: bool) -> Code | None:
    """Numbers of 1..7 bits into a table of values; None if there are more than 128 values."""
    values, index = np.unique(blocks, return_inverse=True)
    bits = max(1, int(values.size - 1).bit_length())
    if bits > MOST_BITS:
        return None
    flags = index.reshape(-1, 1).astype(np.uint8) >> np.arange(bits, dtype=np.uint8) & 1
    codes = np.packbits(flags, bitorder="little")
    read_beyond = 4 - bits if bits <= PAIR_BITS else bits // 2 + 4 - bits
    codes = np.pad(codes, (0, read_beyond))
    full = np.pad(values, (0, (1 << bits) - values.size), mode="edge").astype(np.int8)
    about = f"{bits} bits in a table of {values.size} values"
    strides = (blocks[0].size // 8 * bits, 0)
    if bits > PAIR_BITS:
        return Code(f"tw_decode_lut{bits}", (codes, full), strides, about, {"halves": int(halves)})
    pairs = Table("tw_decode_lut_pairs", {"count": full.size, "halves": int(halves)}, (full,), 2 * full.size**2)
    return Code(f"tw_decode_lut{bits}", (codes, None), strides, about, {"halves": 0}, pairs)


def for_helium(code: Code) -> Code:
    """The same code for a core with Helium, which looks up 16 values at once and needs no table of pairs."""
    if code.kernel != "tw_decode_lut4" or code.table is None or code.table.params["halves"]:
        return code
    inputs = (code.inputs[0], *code.table.inputs)
    return code._replace(kernel="tw_decode_lut4_mve", inputs=inputs, table=None)


def huffman(blocks: Blocks, halves: bool) -> Code:
    """Canonical Huffman codes of the values."""
    values, index, counts = np.unique(blocks, return_inverse=True, return_counts=True)
    lengths = np.array(code_lengths(counts.tolist(), LONGEST), np.int16)
    order = np.lexsort((values, lengths))
    words = np.empty(values.size, np.int16)
    words[order] = _canonical(lengths[order])
    longest = int(lengths.max())
    slices = [_bits(words[i], lengths[i], longest) for i in index.reshape(len(blocks), -1)]
    starts = np.cumsum([0, *(part.size for part in slices[:-1])]).astype(np.int32)
    codes = np.concatenate([*slices, np.zeros(4, np.uint8)])
    of_length = np.bincount(lengths, minlength=longest + 1)[1:].astype(np.uint16)
    symbols = values[order].astype(np.int8)
    table = Table("tw_decode_huffman_table", {"bits": longest}, (of_length, symbols), 2 << longest)
    about = f"Huffman codes of {values.size} values, {8 * (codes.size - 4) / blocks.size:.2f} bits each"
    params = {"halves": int(halves), "bits": longest}
    return Code("tw_decode_huffman", (codes, None, starts), (0, 0, 4), about, params, table)


def bitmap(blocks: Blocks, halves: bool) -> Code:
    """One bit per element, and the values that are not zero."""
    flags = np.packbits(blocks != 0, axis=2)
    words = np.pad(flags, ((0, 0), (0, 0), (0, -flags.shape[2] % 4))).view(">u4").astype("<u4")
    counts = np.count_nonzero(blocks, axis=(1, 2))
    starts = np.cumsum([0, *counts[:-1]]).astype(np.int32)
    values = blocks[blocks != 0]
    about = f"a bitmap and {values.size:,} values that are not zero"
    inputs = (words, values if values.size else np.zeros(1, np.int8), starts)
    return Code("tw_decode_bitmap", inputs, (words[0].nbytes, 0, 4), about, {"halves": int(halves)})


def _canonical(lengths: NDArray[np.int16]) -> list[int]:
    """The codes for rising lengths: each is the next number, with zeros appended where it is longer."""
    codes, code, last = [], 0, int(lengths[0])
    for length in lengths.tolist():
        code <<= length - last
        codes.append(code)
        code, last = code + 1, length
    return codes


def _bits(words: NDArray[np.int16], lengths: NDArray[np.int16], longest: int) -> NDArray[np.uint8]:
    """The codes in a row, the first bit highest, filled up to whole bytes."""
    place = np.arange(longest, dtype=np.int16)
    flags = words[:, None] >> (lengths[:, None] - 1 - place).clip(min=0) & 1
    return np.packbits(flags[place < lengths[:, None]].astype(np.uint8))


def code_lengths(counts: Sequence[int], longest: int) -> list[int]:
    """Lengths in bits of the best prefix code for these counts of symbols, at most ``longest``; a lone symbol gets 1.

    Source: package-merge, Larmore and Hirschberg, "A fast algorithm for optimal length-limited Huffman codes", 1990.
    """
    if len(counts) == 1:
        return [1]
    leaves: list[tuple[int, tuple[int, ...]]] = sorted((count, (i,)) for i, count in enumerate(counts))
    level = leaves
    for _ in range(longest - 1):
        pairs = [(a[0] + b[0], a[1] + b[1]) for a, b in zip(level[::2], level[1::2], strict=False)]
        level = sorted([*leaves, *pairs], key=lambda package: package[0])
    lengths = [0] * len(counts)
    for _, symbols in level[: 2 * len(counts) - 2]:
        for i in symbols:
            lengths[i] += 1
    return lengths


#: Coding -> its function, which returns None where it cannot hold the blocks. The flag: for halves, as SMLAD reads.
CODINGS: Mapping[str, Callable[[Blocks, bool], Code | None]] = {"lut": lut, "huffman": huffman, "bitmap": bitmap}
