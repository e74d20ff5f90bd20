"""Pooling: divisors and sizes that ONNX's operators do not have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from twinfer.converter.torch.rewrite import Rule

_AVERAGE = {2: F.avg_pool2d, 3: F.avg_pool3d}


def _each(value: Any, rank: int) -> list[int]:
    """One number for each spatial dimension."""
    given = [value] if isinstance(value, int) else list(value)
    return given * rank if len(given) == 1 else given


def _has_divisor(rank: int) -> Any:
    return lambda x, k, s=(), p=0, ceil_mode=False, include=True, divisor_override=None: divisor_override is not None


def average_by_divisor(rank: int) -> Any:
    """Averages whose sums are divided by a given number. The padding, and what ceil_mode reads beyond, becomes PAD."""

    def average(
        x: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> Tensor:  # fmt: skip
        kernel, pads = _each(kernel_size, rank), _each(padding, rank)
        steps = _each(stride, rank) if stride else kernel
        edges = []
        for extent, k, s, p in zip(x.shape[-rank:], kernel, steps, pads, strict=True):
            span = extent + 2 * p - k
            windows = (-(-span // s) if ceil_mode else span // s) + 1
            windows -= ceil_mode and (windows - 1) * s >= extent + p  # no window begins in the padding behind
            edges.append((p, max(0, (windows - 1) * s + k - extent - p)))
        x = F.pad(x, [n for pair in reversed(edges) for n in pair])
        return _AVERAGE[rank](x, kernel, steps) * (math.prod(kernel) / (divisor_override or 1))

    return average


def windows(size: int, count: int) -> list[range]:
    """The elements of ``size`` that each of ``count`` results of adaptive pooling sees."""
    return [range(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def adaptive_average(x: Tensor, output_size: Sequence[int]) -> Tensor:
    """Averages over windows of different sizes, which are products with a matrix along each dimension."""
    for axis, count in zip(range(-len(output_size), 0), output_size, strict=True):
        seen = windows(x.shape[axis], count)
        if count == 1:
            x = x.mean(axis, keepdim=True)
        elif len({len(each) for each in seen}) > 1 or len(seen[0]) > 1:
            rows = [[(1 / len(each)) * (i in each) for each in seen] for i in range(x.shape[axis])]
            x = (x.transpose(axis, -1) @ torch.tensor(rows, dtype=x.dtype)).transpose(axis, -1)
    return x


def adaptive_max(rank: int) -> Any:
    """The largest of each window, and its place in the image. That is the first one: windows with fewer elements than
    others end with their last one several times."""

    def largest(x: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
        sizes = x.shape[-rank:]
        seen = [windows(n, count) for n, count in zip(sizes, _each(output_size, rank), strict=True)]
        tables = [[[*w, *[w[-1]] * (max(map(len, each)) - len(w))] for w in each] for each in seen]
        values = x
        for i, table in enumerate(tables):
            values = _taken(values, table, i - rank).amax(i - rank)
        places = np.arange(math.prod(sizes)).reshape(sizes)[np.ix_(*(np.ravel(table) for table in tables))]
        split = [n for each in seen for n in (len(each), max(map(len, each)))]
        order = [*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)]
        places = places.reshape(split).transpose(order).reshape([len(each) for each in seen] + [-1])
        flat = x.flatten(-rank)[..., torch.from_numpy(places.ravel())].unflatten(-1, places.shape)
        at = flat.argmax(-1, keepdim=True)
        known = torch.from_numpy(places).expand(flat.shape)
        return values, known.gather(-1, at).squeeze(-1)

    return largest


def _taken(x: Tensor, table: list[list[int]], axis: int) -> Tensor:
    """The elements along an axis (negative) that a table names: two dimensions in its place."""
    flat = x.index_select(axis, torch.tensor(table).flatten())
    return flat.unflatten(axis, (len(table), -1))


def _uneven(rank: int) -> Any:
    def uneven(x: Tensor, output_size: Any) -> bool:
        return any(n % count for n, count in zip(x.shape[-rank:], _each(output_size, rank), strict=True))

    return uneven


RULES = {f"avg_pool{d}d": Rule(average_by_divisor(d), _has_divisor(d)) for d in (2, 3)}
RULES |= {f"adaptive_avg_pool{d}d": Rule(adaptive_average, _uneven(d)) for d in (1, 2)}
RULES["adaptive_avg_pool3d"] = Rule(adaptive_average, lambda x, output_size: max(_each(output_size, 3)) > 1)
RULES |= {f"adaptive_max_pool{d}d": Rule(adaptive_max(d), _uneven(d)) for d in (1, 2, 3)}
