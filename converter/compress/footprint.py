"""The bytes of weights in flash, plain and in every coding that the compiler knows (``runtime.plan.codes``).

These are estimates: a compiler codes weights as its kernels pack them, cut into slices, and adds decoders.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.compress.layers import Weights, layers_of
from twinfer.runtime.graph import Graph
from twinfer.runtime.plan.codes import CODINGS


@dataclass(frozen=True)
class Footprint:
    """One layer's weights: how many, how many different, the share of zeros, Shannon's entropy in bits per weight, and
    the bytes: plain, and by each coding (None where it does not apply)."""

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
        """Bytes of the best coding, or plain."""
        return min(size for size in (self.plain, self.bitmap, self.lut, self.huffman) if size is not None)


def footprints(graph: Graph) -> tuple[Footprint, ...]:
    """The footprints of all layers with constant weights, in order of execution. Float weights are not coded."""
    return tuple(map(_footprint, layers_of(graph)))


def _footprint(weights: Weights) -> Footprint:
    stored = weights.stored()
    values, counts = np.unique(stored, return_counts=True)
    share = counts / stored.size
    entropy = abs(float(-(share * np.log2(share)).sum()))
    plain = weights.tensor.nbytes
    coded = dict.fromkeys(CODINGS) if weights.is_float else _coded(stored)
    kind, zeros = weights.tensor.type, float(np.mean(stored == 0))
    name, operator = weights.name, weights.node.op
    return Footprint(name, operator, kind, stored.size, len(values), zeros, entropy, plain, **coded)


def _coded(stored: NDArray[np.float64]) -> dict[str, int | None]:
    """Bytes of the weights in every coding."""
    flat = stored.reshape(1, 1, -1).astype(np.int8)
    blocks = np.pad(flat, ((0, 0), (0, 0), (0, -flat.size % 8)), mode="edge")
    codes = {name: coding(blocks, False) for name, coding in CODINGS.items()}
    return {name: None if code is None else code.nbytes for name, code in codes.items()}
