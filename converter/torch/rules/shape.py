"""Parts of tensors put together, taken apart and put elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from twinfer.converter.torch.rewrite import Rule
from twinfer.runtime.errors import UnsupportedOperatorError


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    parts = [t.reshape(1) if not t.ndim else t for t in tensors]
    return torch.cat(parts, 0 if parts[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([t.reshape(1, -1) if t.ndim < 2 else t for t in tensors], 0)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat(
        [t.reshape(1, -1, 1) if t.ndim < 2 else t.reshape(*t.shape, 1) if t.ndim == 2 else t for t in tensors], 2
    )


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([t.reshape(-1, 1) if t.ndim < 2 else t for t in tensors], 1)


def _put(x: Tensor, places: Tensor, source: Tensor) -> Tensor:
    """The elements of the source at these places (known ahead) of x, counted over all of its elements."""
    flat = x.flatten().scatter(0, places.flatten(), source.expand(places.shape).flatten())
    return flat.reshape(x.shape)


def _numbers(shape: Sequence[int]) -> Tensor:
    return torch.arange(math.prod(shape)).reshape(tuple(shape))


def diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    return _put(x, _numbers(x.shape).diagonal(offset, dim1, dim2), src)


def as_strided_scatter(
    x: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    places = storage_offset or 0
    for i, (extent, step) in enumerate(zip(size, stride, strict=True)):
        places = places + step * torch.arange(extent).reshape([-1] + [1] * (len(size) - 1 - i))
    return _put(x, torch.as_tensor(places), src)


def scatter_mean(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """Means of what each place is given, which torch.onnx has not."""
    src = src[tuple(map(slice, index.shape))]
    count = torch.zeros_like(x).scatter_add(dim, index, torch.ones_like(src))
    if include_self:
        return x.scatter_add(dim, index, src) / (count + 1)
    total = torch.zeros_like(x).scatter_add(dim, index, src)
    return torch.where(count > 0, total / count.clamp_min(1), x)


def index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Whole slices along a dimension are put together."""
    shape = [-1 if i == dim % x.ndim else 1 for i in range(x.ndim)]
    places = index.reshape(shape).expand(source.shape)
    if reduce == "mean":
        return scatter_mean(x, dim, places, source, reduce, include_self=include_self)
    return x.scatter_reduce(dim, places, source, reduce, include_self=include_self)


def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    flat, places, values = x.flatten(), index.flatten(), source.flatten()
    return (flat.scatter_add if accumulate else flat.scatter)(0, places, values).reshape(x.shape)


def repeat_interleave(
    x: Tensor, repeats: Tensor, dim: int | None = None, *, output_size: int | None = None, known: Sequence[Any]
) -> Tensor:
    """Elements repeated a number of times that is known for each."""
    if known[0] is None:
        raise UnsupportedOperatorError("torch.repeat_interleave by numbers that are computed; make them constants")
    x, axis = (x.flatten(), 0) if dim is None else (x, dim)
    counts = known[0].reshape(-1).tolist()
    counts = counts * x.shape[axis] if len(counts) == 1 else counts
    return x.index_select(axis, torch.tensor([i for i, count in enumerate(counts) for _ in range(count)]))


def conv_tbc(x: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution over [time, batch, channels]."""
    return F.conv1d(x.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)


def ihfft(x: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The conjugate of rfft, divided where rfft is not."""
    turned = {"forward": "backward", "ortho": "ortho"}.get(norm or "backward", "forward")
    y = torch.fft.rfft(x, n, dim, turned)
    return torch.complex(y.real, -y.imag)


RULES: dict[str, Any] = {
    "as_strided_scatter": as_strided_scatter,
    "column_stack": column_stack,
    "conv_tbc": conv_tbc,
    "diagonal_scatter": diagonal_scatter,
    "dstack": dstack,
    "fft_ihfft": ihfft,
    "hstack": hstack,
    "index_reduce": index_reduce,
    "put": put,
    "repeat_interleave.self_Tensor": Rule(repeat_interleave, knows=(1,)),
    "scatter_reduce.two": Rule(scatter_mean, lambda x, dim, index, src, reduce, include_self=True: reduce == "mean"),
    "vstack": vstack,
}
