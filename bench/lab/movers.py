"""Random graphs of operators that move data. Compilers have miscompiled such graphs
(``bench/lab/compilers.py``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from twinfer.converter.build import Builder
from twinfer.runtime.graph import Graph, Tensor

Rng = np.random.Generator


def _input(b: Builder, rng: Rng, rank: int = 4) -> Tensor:
    limit = 24 if rank < 4 else 9
    shape = (1, *(int(n) for n in rng.integers(1, limit, rank - 1)))
    kind = str(rng.choice(["INT8", "INT8", "FLOAT32", "INT16"]))
    return b.input(f"x{len(b.inputs)}", kind, shape, *(() if kind == "FLOAT32" else (0.05, 0)))


def _moved(b: Builder, op: str, x: Tensor, more: Sequence[Any], shape: Sequence[int], **options: Any) -> Tensor:
    """``op`` over ``more``, with the type and quantisation of ``x``."""
    operands = [a if isinstance(a, Tensor) else np.asarray(a, np.int32) for a in more]
    return b.op(op, operands, shape=tuple(map(int, shape)), type=x.type, **_same(x), **options)


def _same(x: Tensor) -> dict[str, Any]:
    return {} if x.quant is None else {"scale": x.scale, "zero": x.zero}


def _gather(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    axis = int(rng.integers(1, len(x.shape)))
    picked = rng.integers(0, x.shape[axis], int(rng.integers(1, 9)))
    shape = [*x.shape[:axis], len(picked), *x.shape[axis + 1 :]]
    return _moved(b, "GATHER", x, [x, picked], shape, axis=axis, batch_dims=0)


def _transpose(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    order = rng.permutation(len(x.shape))
    return _moved(b, "TRANSPOSE", x, [x, order], [x.shape[i] for i in order])


def _slice(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    begin = [int(rng.integers(0, n)) for n in x.shape]
    size = [int(rng.integers(1, n - at + 1)) for n, at in zip(x.shape, begin, strict=True)]
    return _moved(b, "SLICE", x, [x, begin, size], size)


def _strided_slice(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    begin = [int(rng.integers(0, n)) for n in x.shape]
    step = [int(rng.integers(1, 4)) for _ in x.shape]
    shape = [-(-(n - at) // by) for n, at, by in zip(x.shape, begin, step, strict=True)]
    masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
    return _moved(b, "STRIDED_SLICE", x, [x, begin, x.shape, step], shape, **masks)


def _concatenation(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    axis = int(rng.integers(1, len(x.shape)))
    parts = [x, *(b.op("RELU", [x], **_same(x)) for _ in range(int(rng.integers(1, 3))))]
    shape = [*x.shape[:axis], len(parts) * x.shape[axis], *x.shape[axis + 1 :]]
    return _moved(b, "CONCATENATION", x, parts, shape, axis=axis, fused_activation_function="NONE")


def _pad(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    pads = rng.integers(0, 3, (len(x.shape), 2))
    return _moved(b, "PAD", x, [x, pads], [n + int(sum(p)) for n, p in zip(x.shape, pads, strict=True)])


def _tile(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    times = rng.integers(1, 3, len(x.shape))
    return _moved(b, "TILE", x, [x, times], [n * int(t) for n, t in zip(x.shape, times, strict=True)])


def _quantize(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    if x.quant is None:
        return b.op("QUANTIZE", [x], type="INT8", scale=0.1, zero=int(rng.integers(-9, 9)))
    return b.op("DEQUANTIZE", [x], type="FLOAT32")


def _maximum(b: Builder, x: Tensor, rng: Rng) -> Tensor:
    return b.op("MAXIMUM", [x, b.op("RELU", [x], **_same(x))], **_same(x))


LAYERS: tuple[Callable[[Builder, Tensor, Rng], Tensor], ...] = (
    _gather, _gather, _transpose, _slice, _strided_slice, _concatenation, _pad, _tile, _quantize, _maximum,
)  # fmt: skip

#: A tensor with more elements gets no further layer.
LARGE = 2_000


def graph(seed: int) -> Graph:
    """One to four layers on a random input; the last value is the output."""
    rng = np.random.default_rng(seed)
    b = Builder(f"random_{seed}")
    x = _input(b, rng, int(rng.integers(2, 5)))
    for _ in range(int(rng.integers(1, 5))):
        if x.size <= LARGE:
            x = LAYERS[int(rng.integers(len(LAYERS)))](b, x, rng)
    return b.graph([x])
