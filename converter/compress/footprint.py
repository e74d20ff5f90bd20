"""What weights take in flash, plain and coded: estimates from the values alone, before anything is compiled.

For n weights of d different values: a look-up table has ceil(log2 d) bits a weight and d bytes; a bitmap one bit a
weight and the bytes of those that are not zero; Huffman's code its optimal length (Huffman 1952), d bytes of symbols
and a byte for each length that a code may have. What a compiler makes of them may differ by its alignment.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.compress.layers import BITS, Weights, layers_of
from twinfer.runtime.graph import Graph

#: A look-up table is of so many bits at most: of 8 it saves nothing.
MOST_TABLE_BITS = 7


@dataclass(frozen=True)
class Footprint:
    """One layer's weights: how many, how many different, the share of zeros, Shannon's entropy in bits a weight, and
    bytes: as they are, and by each way of coding (None where it does not apply)."""

    name: str
    operator: str
    type: str
    weights: int
    distinct: int
    sparsity: float
    entropy_bits: float
    plain: int
    bitmap: int | None
    lut: int | None
    huffman: int | None

    @property
    def least(self) -> int:
        """Bytes of the best way."""
        return min(size for size in (self.plain, self.bitmap, self.lut, self.huffman) if size is not None)


def footprints(graph: Graph) -> tuple[Footprint, ...]:
    """Of every layer with constant weights, in order of execution; float weights are not coded."""
    return tuple(map(_footprint, layers_of(graph)))


def _footprint(weights: Weights) -> Footprint:
    stored = weights.stored()
    values, counts = np.unique(stored, return_counts=True)
    share = counts / stored.size
    entropy = abs(float(-(share * np.log2(share)).sum()))
    plain = _bytes(stored.size * BITS[weights.tensor.type])
    coded = (None, None, None) if weights.is_float else _coded(stored, values, counts)
    kind, zeros = weights.tensor.type, float(np.mean(stored == 0))
    name, operator = weights.name, weights.node.op
    return Footprint(name, operator, kind, stored.size, len(values), zeros, entropy, plain, *coded)


def _coded(
    stored: NDArray[np.float64], values: NDArray[np.float64], counts: NDArray[np.int64]
) -> tuple[int, int | None, int]:
    """Bytes as bitmap, by table and by Huffman's code."""
    table_bits = max(1, int(len(values) - 1).bit_length())
    table = _bytes(stored.size * table_bits) + len(values)
    bits, longest = huffman(counts.tolist())
    return (
        _bytes(stored.size) + int(np.count_nonzero(stored)),
        table if table_bits <= MOST_TABLE_BITS else None,
        _bytes(bits) + len(values) + longest,
    )


def huffman(counts: list[int]) -> tuple[int, int]:
    """Bits of a text in the optimal prefix code of symbols that occur so often, and bits of its longest word."""
    heap = [(count, 0) for count in counts]
    heapq.heapify(heap)
    if len(heap) == 1:
        return counts[0], 1
    bits = 0
    while len(heap) > 1:
        (one, deep), (other, deeper) = heapq.heappop(heap), heapq.heappop(heap)
        bits += one + other
        heapq.heappush(heap, (one + other, max(deep, deeper) + 1))
    return bits, heap[0][1]


def _bytes(bits: int) -> int:
    return -(-bits // 8)
