"""Scaled dot-product attention of any rank, with masks of truth values and with keys that heads share."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from twinfer.converter.torch.rewrite import Rule

#: What is added to scores that a mask leaves out.
_OUT = torch.finfo(torch.float32).min


def attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """softmax(scale * query @ key^T + mask) @ value. Heads that share a key are rows of one product. A query whose keys
    are all masked gives 0, as in torch."""
    rows, columns = query.shape[-2], key.shape[-2]
    shape = (*query.shape[:-1], value.shape[-1])
    if enable_gqa and query.shape[-3] != key.shape[-3]:
        query = query.reshape(*key.shape[:-2], -1, query.shape[-1])
    scores = (query * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)) @ key.mT
    seen = scores.shape
    if is_causal:
        attn_mask = torch.ones(rows, columns, dtype=torch.bool).tril()
    if attn_mask is None:
        weights = scores.softmax(-1)
    else:
        scores = scores.reshape(*shape[:-1], columns)
        added = torch.where(attn_mask, 0.0, _OUT) if attn_mask.dtype == torch.bool else attn_mask
        weights = (scores + added).softmax(-1)
        if attn_mask.dtype == torch.bool and not is_causal:
            weights = torch.where(attn_mask, weights, 0.0)
        weights = weights.reshape(seen)
    return (weights @ value).reshape(shape)


def _differs(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> bool:  # fmt: skip
    """Whether torch.onnx lacks the form: it has four dimensions only, repeats shared keys, and gives queries whose keys
    are all masked the mean of the values."""
    masked = attn_mask is not None and attn_mask.dtype == torch.bool
    return dropout_p == 0 and (query.ndim != 4 or enable_gqa or masked)


RULES = {"scaled_dot_product_attention": Rule(attention, _differs)}
