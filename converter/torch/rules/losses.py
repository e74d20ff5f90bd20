"""Losses that torch.onnx exports wrong, or in forms that ONNX's operators do not have."""

from __future__ import annotations

import torch
from torch import Tensor

from twinfer.converter.torch.rewrite import Rule

_NONE, _MEAN = 0, 1


def multilabel_margin_loss(x: Tensor, target: Tensor, reduction: int = _MEAN) -> Tensor:
    """max(0, 1 - (x[t] - x[i])) over each t of the targets, which end before the first -1, and each i of the others."""
    count = x.shape[-1]
    counted = (target < 0).float().cumsum(-1) == 0
    targets = target.clamp_min(0)
    marked = (counted[..., None] & (targets[..., None] == torch.arange(count))).any(-2)
    margins = (1 - x.gather(-1, targets)[..., None] + x[..., None, :]).relu()
    wanted = counted[..., None] & marked.logical_not()[..., None, :]
    loss = torch.where(wanted, margins, 0.0).sum((-2, -1)) / count
    return loss if reduction == _NONE else loss.mean() if reduction == _MEAN else loss.sum()


def cross_entropy(
    x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = _MEAN, ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """Of classes, whose labels may be smoothed, or of their probabilities. The mean is over the weights of labels, and
    over the elements of probabilities."""
    axis = 1 if x.ndim > 1 else 0
    count = x.shape[axis]
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]
    given = (torch.ones(count, dtype=x.dtype) if weight is None else weight).reshape(shape)
    logs = x.log_softmax(axis) * given
    if target.is_floating_point():
        loss = -(logs * (target * (1 - label_smoothing) + label_smoothing / count)).sum(axis)
        total = torch.tensor(float(loss.numel()))
    else:
        places = torch.arange(count).reshape(shape)
        kept = (target != ignore_index).to(x.dtype)
        one = (places == target.unsqueeze(axis)).to(x.dtype)
        smooth = (one * (1 - label_smoothing) + label_smoothing / count) * kept.unsqueeze(axis)
        loss, total = -(logs * smooth).sum(axis), (one * given).sum(axis).mul(kept).sum()
    return loss if reduction == _NONE else loss.sum() / total if reduction == _MEAN else loss.sum()


def _smoothed(
    x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = _MEAN, ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> bool:  # fmt: skip
    return target.is_floating_point() or label_smoothing > 0


RULES = {"cross_entropy_loss": Rule(cross_entropy, _smoothed), "multilabel_margin_loss": multilabel_margin_loss}
