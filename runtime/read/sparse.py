"""Where the elements of a sparse tensor lie, as TFLite's SparsityParameters say.

Source of the format: TFLite's schema and its FormatConverter. A tensor of n dimensions has one level per dimension and
per block dimension, in ``traversal_order``; block dimension n + b cuts dimension ``block_map[b]`` into blocks. A dense
level visits all its indices, a sparse one (CSR) those that ``array_indices`` names from ``array_segments[i]`` to
``array_segments[i + 1]``, i being the position on the level before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.errors import ModelError

Indices = NDArray[np.int64]


def element_places(shape: Sequence[int], sparsity: Mapping[str, Any]) -> Indices:
    """The flat index in ``shape`` of every stored element, in the order in which they are stored.

    Raises ModelError if the parameters contradict themselves or the shape.
    """
    order, blocks = list(sparsity["traversal_order"]), list(sparsity["block_map"])
    levels, rank = sparsity["dim_metadata"], len(shape)
    _need(sorted(order) == list(range(rank + len(blocks))), f"traversal order {order} of {rank} dimensions")
    _need(len(levels) == len(order), f"{len(levels)} levels, {len(order)} are needed")
    _need(len(set(blocks)) == len(blocks) and all(0 <= d < rank for d in blocks), f"block map {blocks}")
    extents = _extents(shape, order, blocks, levels)
    position, at = np.zeros(1, np.int64), dict[int, Indices]()
    for dimension, level in zip(order, levels, strict=True):
        position, index, taken = _visited(position, level, extents[dimension], math.prod(shape))
        at = {known: values[taken] for known, values in at.items()} | {dimension: index}
    for b, dimension in enumerate(blocks):
        at[dimension] = at[dimension] * extents[rank + b] + at[rank + b]
    places = np.zeros(len(position), np.int64)
    for dimension, extent in enumerate(shape):
        places = places * extent + at[dimension]
    return places


def _extents(shape: Sequence[int], order: Sequence[int], blocks: Sequence[int], levels: Sequence[Any]) -> list[int]:
    """How many indices each dimension has, in blocks where it is cut, and then each block dimension."""
    extents = list(shape)
    for b, dimension in enumerate(blocks):
        size = int(levels[order.index(len(shape) + b)]["dense_size"])
        _need(size > 0 and shape[dimension] % size == 0, f"blocks of {size} along an extent of {shape[dimension]}")
        extents[dimension] = shape[dimension] // size
        extents.append(size)
    return extents


def _visited(position: Indices, level: Mapping[str, Any], extent: int, most: int) -> tuple[Indices, Indices, Indices]:
    """One level on: every new position, its index along the level's dimension, and which position before it is from."""
    if level["format"] == "DENSE":
        _need(level["dense_size"] == extent, f"a dense level of {level['dense_size']} along an extent of {extent}")
        _need(len(position) * extent <= most, "more elements than the shape has")
        index = np.tile(np.arange(extent), len(position))
        taken = np.repeat(np.arange(len(position)), extent)
        return position[taken] * extent + index, index, taken
    segments, indices = _vector(level["array_segments"]), _vector(level["array_indices"])
    _need(not len(position) or position.max() + 1 < len(segments), f"{len(segments)} segments are too few")
    first, end = segments[position], segments[position + 1]
    _need(bool((first >= 0).all() and (first <= end).all() and (end <= len(indices)).all()), "segments out of order")
    counts = end - first
    _need(int(counts.sum()) <= most, "more elements than the shape has")
    taken = np.repeat(np.arange(len(position)), counts)
    within = np.arange(len(taken)) - np.repeat(np.cumsum(counts) - counts, counts)
    now = first[taken] + within
    index = indices[now]
    _need(bool(((index >= 0) & (index < extent)).all()), f"an index outside of an extent of {extent}")
    return now, index, taken


def _vector(union: Any) -> Indices:
    """The values of a SparseIndexVector."""
    _need(union is not None and union[1] is not None, "a sparse level without segments or indices")
    raw = union[1]["values"]
    if isinstance(raw, bytes):
        return np.frombuffer(raw, np.uint8).astype(np.int64)
    return np.array(raw if raw is not None else (), np.int64)


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise ModelError(f"sparsity: {message}")
