"""Losses that torch.onnx exports wrong."""

from __future__ import annotations

import torch
from torch import Tensor

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


RULES = {"multilabel_margin_loss": multilabel_margin_loss}
