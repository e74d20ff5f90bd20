"""Rows of a table: bags of them, and rows of a limited norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from twinfer.converter.torch.rewrite import Rule

_SUM, _MEAN, _MAX = 0, 1, 2


def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = _SUM,
    sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int | None = None, *, known: Sequence[Any],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Sums, means or maxima over bags of rows: bag b has the rows from its offset to the next one."""
    rows, count = F.embedding(indices, weight), indices.shape[0]
    starts = offsets[:-1] if include_last_offset else offsets
    bags = starts.shape[0]
    counted = None if padding_idx is None else indices != (padding_idx + weight.shape[0]) % weight.shape[0]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    if known[0] is not None and list(known[0][:bags]) == list(range(0, count, count // max(1, bags))):
        rows = rows.reshape(bags, count // bags, -1)
        member = None if counted is None else counted.reshape(bags, count // bags, 1)
    else:
        ends = torch.cat([offsets[1:], torch.full((1,), count)]) if not include_last_offset else offsets[1:]
        order = torch.arange(count)
        member = ((order >= starts[:, None]) & (order < ends[:, None]))[..., None]
        member = member if counted is None else member & counted[:, None]
        rows = rows.expand(bags, *rows.shape)
    result = _bag(rows, member, mode)
    unused = torch.zeros(0, dtype=torch.int64)
    return result, unused, unused, unused


def _bag(rows: Tensor, member: Tensor | None, mode: int) -> Tensor:
    """Rows [bags, n, width] taken together; of each bag those that are members. Empty bags give 0."""
    if member is None:
        return rows.amax(1) if mode == _MAX else rows.mean(1) if mode == _MEAN else rows.sum(1)
    size: Tensor = member.to(rows.dtype).sum(1)
    if mode == _MAX:
        most = torch.where(member, rows, torch.finfo(rows.dtype).min).amax(1)
        return torch.where(size > 0, most, 0.0)
    total = torch.where(member, rows, 0.0).sum(1)
    return total / size.clamp_min(1) if mode == _MEAN else total


def renormed(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """A table whose rows have at most a norm. torch changes only those that are looked up; nobody sees the others."""
    norm = torch.linalg.vector_norm(weight, norm_type, -1, keepdim=True)
    return weight.copy_(torch.where(norm > max_norm, weight * (max_norm / (norm + 1e-7)), weight))


RULES: dict[str, Any] = {f"embedding_bag{kind}": Rule(embedding_bag, knows=(2,)) for kind in ("", ".padding_idx")}
RULES["embedding_renorm_"] = renormed
