"""The values that models are fed with."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from twinfer.bench.known.model import Rng
from twinfer.runtime.graph import Array, Graph, Tensor

#: The runs of a model with state, and of others.
RUNS_WITH_STATE, RUNS = 3, 1


def runs(rng: Rng, graph: Graph, given: Mapping[Tensor, Array], count: int) -> tuple[tuple[Array, ...], ...]:
    """Inputs of so many runs; ``given`` values are the same in all of them."""
    return tuple(tuple(given[t] if t in given else value(rng, t) for t in graph.inputs) for _ in range(count))


def value(rng: Rng, tensor: Tensor) -> Array:
    """A value for a tensor: of its whole range, a small one, or one of few values that are mostly the ends."""
    if tensor.dtype.kind == "b":
        return np.asarray(rng.random(tensor.shape) < rng.choice([0.1, 0.5, 0.9]))
    if tensor.dtype.kind in "fc":
        return _floats(rng, tensor)
    info = np.iinfo(tensor.dtype)
    kind = int(rng.integers(5))
    if kind == 0:
        ends = np.array([info.min, info.max, 0, info.max - 1], tensor.dtype)
        return rng.choice(ends, tensor.shape).astype(tensor.dtype)
    if kind == 1:
        low = 0 if info.min == 0 else -5
        return rng.integers(low, 6, tensor.shape).astype(tensor.dtype)
    return rng.integers(info.min, info.max, tensor.shape, tensor.dtype, endpoint=True)


def _floats(rng: Rng, tensor: Tensor) -> Array:
    normal = rng.standard_normal(tensor.shape) * rng.choice([0.01, 1.0, 3.0, 3.0, 30.0])
    kind = int(rng.integers(4))
    if kind == 0:
        normal = np.round(normal * 2) / 2  # halves, zeros of both signs, and equal values
    return np.asarray(normal).astype(tensor.dtype)
