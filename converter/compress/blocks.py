"""Chooses the weights that become zero: blocks of small magnitude, in one layer or over all layers together."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.errors import InvalidArgumentError

FORMS = (
    "give MxN for blocks of M outputs by N input channels (1x1: single weights), or N:M for at most N of M input "
    "channels in a row that are not zero"
)

#: Whether a weight is kept, [outputs, taps, inputs].
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Block:
    """``outputs`` by ``inputs`` weights of one tap, which become zero together. With ``keep``: at most ``keep`` of
    every ``inputs`` weights in a row are not zero. Where a size does not divide, the last block is smaller."""

    outputs: int = 1
    inputs: int = 1
    keep: int | None = None

    @property
    def sparsity(self) -> float | None:
        """The share of zeros that N:M fixes; None for other blocks."""
        return None if self.keep is None else 1 - self.keep / self.inputs


def block(text: str) -> Block:
    """The Block of a text like "1x4" or "2:4"; InvalidArgumentError for anything else."""
    match = re.fullmatch(r"([1-9]\d{0,3})([x:])([1-9]\d{0,3})", text)
    if match is None:
        raise InvalidArgumentError(f"{text!r} is no block of weights: {FORMS}")
    first, last = int(match[1]), int(match[3])
    if match[2] == "x":
        return Block(first, last)
    if first >= last:
        raise InvalidArgumentError(f"{text!r} keeps every weight: N:M needs N less than M")
    return Block(1, last, first)


def zeros(sparsity: float, size: int) -> int:
    """The least number of zeros among ``size`` weights whose share is at least ``sparsity``. ``sparsity`` means the
    decimal number that Python prints."""
    return math.ceil(Fraction(repr(float(sparsity))) * size)


def energies(squares: NDArray[np.float64], shape: Block) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Sum of the squares of every block, and its number of weights; both [row of blocks, tap, column of blocks]."""
    outputs, _, inputs = squares.shape
    rows, columns = np.arange(0, outputs, shape.outputs), np.arange(0, inputs, shape.inputs)
    sums = np.add.reduceat(np.add.reduceat(squares, rows, 0), columns, 2)
    sizes = np.outer(np.diff(rows, append=outputs), np.diff(columns, append=inputs))
    return sums, np.broadcast_to(sizes[:, None, :], sums.shape)


def mask(squares: NDArray[np.float64], count: int, shape: Block) -> Mask:
    """The weights to keep if at least ``count`` of them become zero; ``squares`` [outputs, taps, inputs] holds their
    squares. Blocks with the least mean square go first; of equal blocks the first goes. No more blocks go than needed.
    """
    if shape.keep is not None:
        return _some_of_many(squares, shape.inputs, shape.keep)
    sums, sizes = energies(squares, shape)
    order = np.argsort((sums / sizes).reshape(-1), kind="stable")
    before = np.concatenate([[0], np.cumsum(sizes.reshape(-1)[order])[:-1]])
    kept = np.empty(sums.size, np.bool_)
    kept[order] = before >= count
    full = np.repeat(np.repeat(kept.reshape(sums.shape), shape.outputs, 0), shape.inputs, 2)
    return full[: squares.shape[0], :, : squares.shape[2]]


def _some_of_many(squares: NDArray[np.float64], many: int, keep: int) -> Mask:
    """The ``keep`` greatest of every ``many`` input channels in a row; the first of equal ones."""
    outputs, taps, inputs = squares.shape
    padded = np.pad(squares, ((0, 0), (0, 0), (0, -inputs % many)), constant_values=-1.0)
    groups = padded.reshape(outputs, taps, -1, many)
    rank = np.argsort(np.argsort(-groups, axis=3, kind="stable"), axis=3, kind="stable")
    return (rank < keep).reshape(padded.shape)[:, :, :inputs]


def budgets(layers: Sequence[tuple[NDArray[np.float64], Block]], count: int) -> list[int]:
    """The number of zeros in every layer if at least ``count`` weights of all layers together become zero.

    Blocks of all layers are ranked by their mean square as a share of what the layer has left once everything smaller
    is gone, so that no layer is emptied. Source: Lee et al. 2021, "Layer-adaptive Sparsity for the Magnitude-based
    Pruning" (LAMP), with blocks for weights.
    """
    scores, sizes = zip(*[_shares(squares, shape) for squares, shape in layers], strict=True)
    owner = np.repeat(np.arange(len(layers)), [len(s) for s in scores])
    size = np.concatenate(sizes)
    order = np.argsort(np.concatenate(scores), kind="stable")
    gone = order[np.concatenate([[0], np.cumsum(size[order])[:-1]]) < count]
    return [int(n) for n in np.bincount(owner[gone], size[gone], len(layers))]


def _shares(squares: NDArray[np.float64], shape: Block) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The blocks of a layer, the least mean square first: mean square over the sum of squares that is left, and
    sizes."""
    sums, sizes = energies(squares, shape)
    sums, sizes = sums.reshape(-1), sizes.reshape(-1)
    means = sums / sizes
    order = np.argsort(means, kind="stable")
    left = np.cumsum(sums[order][::-1])[::-1]
    return means[order] / np.maximum(left, np.finfo(np.float64).tiny), sizes[order]
