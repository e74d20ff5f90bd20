"""Values to try a model on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from twinfer.runtime.graph import Array, Graph, Tensor

#: Zeros of both signs, the smallest numbers and the smallest normal ones, the largest; infinities and NaN.
FINITE = (0.0, -0.0, 2.0**-149, -(2.0**-149), 2.0**-126, -(2.0**-126), 3.4028234663852886e38, -3.4028234663852886e38)
SPECIAL = (*FINITE, float("inf"), float("-inf"), float("nan"))

#: How many random values are drawn at once. Python heeds Ctrl-C only between two calls of numpy.
_PART = 1 << 20


def random_inputs(graph: Graph, seed: int = 0) -> list[Array]:
    """One seeded value per graph input, of its shape and dtype.

    Integers cover the whole range of their type; floats, and the real parts of complex numbers, are normal, sigma 1.
    """
    rng = np.random.default_rng(seed)
    values: list[Array] = []
    for t in graph.inputs:
        values.append(np.empty(t.shape, t.dtype))
        flat = values[-1].reshape(-1)
        for part in (flat[at : at + _PART] for at in range(0, flat.size, _PART)):
            if t.dtype.kind in "fc":
                part[...] = rng.standard_normal(part.size)
            elif t.dtype.kind == "b":
                part[...] = rng.integers(0, 2, part.size)
            else:
                info = np.iinfo(t.dtype)
                part[...] = rng.integers(info.min, info.max, part.size, dtype=t.dtype, endpoint=True)
    return values


def special_inputs(graph: Graph) -> list[list[Array]]:
    """Inputs of two runs that hold what breaks arithmetic: small and extreme values, then infinities and NaN, too.

    Some elements of floats become special ones; of what QUANTIZE reads, only such as have less than 2^30 steps, because
    others have no integer in C++. Integers are mostly ends of their type.
    """
    usual = random_inputs(graph)
    return [
        [_special(t, v, list(_pool(graph, t, few))) for t, v in zip(graph.inputs, usual, strict=True)]
        for few in (True, False)
    ]


def _pool(graph: Graph, tensor: Tensor, few: bool) -> Iterator[float]:
    """The special values for an input; ``few``: none that spreads to all that is computed of it."""
    if tensor.dtype.kind in "iu":
        info = np.iinfo(tensor.dtype)
        yield from (info.min, info.max, *(() if few else (0, info.max - 1)))
        return
    readers = [node.output for node in graph.nodes if node.op == "QUANTIZE" and node.input(0) == tensor]
    most = min((y.scale * 2.0**30 for y in readers), default=np.inf)
    for value in FINITE[:6] if few else SPECIAL:
        if not readers or abs(value) < most:
            yield value
    if readers:
        yield from (most / 2, -most / 2)


def _special(tensor: Tensor, value: Array, pool: list[float]) -> Array:
    """Every third element from the pool, in turn; of few elements the first."""
    if tensor.dtype.kind not in "fciu" or not value.size:
        return value
    special = value.copy()
    with np.errstate(over="ignore"):
        special.reshape(-1)[::3] = np.resize(np.array(pool), -(-value.size // 3)).astype(value.real.dtype)
    return special
