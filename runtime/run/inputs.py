"""Values to try a model on."""

from __future__ import annotations

import numpy as np

from twinfer.runtime.graph import Array, Graph


def random_inputs(graph: Graph, seed: int = 0) -> list[Array]:
    """One seeded value per graph input, of its shape and dtype.

    Integers cover the whole range of their type; floats, and the real parts of complex numbers, are normal, sigma 1.
    """
    rng = np.random.default_rng(seed)
    values: list[Array] = []
    for t in graph.inputs:
        if t.dtype.kind in "fc":
            values.append(rng.standard_normal(t.shape).astype(t.dtype))
        elif t.dtype.kind == "b":
            values.append(rng.integers(0, 2, t.shape).astype(bool))
        else:
            info = np.iinfo(t.dtype)
            values.append(rng.integers(info.min, info.max, t.shape, dtype=t.dtype, endpoint=True))
    return values
