"""Functions that torch.export cannot trace, because they look at values: in their place, ones that do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations as places_of
from itertools import combinations_with_replacement as places_with_repeats
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from twinfer.converter import matrices


class Traceable(TorchFunctionMode):  # type: ignore[misc]
    """Calls the functions of ``INSTEAD`` while it is entered."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return INSTEAD.get(function, function)(*args, **(kwargs or {}))


def cov(x: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    x = x.reshape(1, -1) if x.ndim < 2 else x
    weights = torch.ones(x.shape[1], dtype=x.dtype) if aweights is None else aweights
    weights = weights if fweights is None else weights * fweights
    total = weights.sum()
    rest = x - (x * weights).sum(1, keepdim=True) / total
    less = correction if aweights is None else correction * (weights * aweights).sum() / total
    result = (rest * weights) @ rest.T / (total - less)
    return result.squeeze()


def corrcoef(x: Tensor) -> Tensor:
    between = cov(x)
    if not between.ndim:
        return between / between
    spread = between.diagonal().sqrt()
    return (between / spread[:, None] / spread[None]).clamp(-1.0, 1.0)


def combinations(x: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    rows = (places_with_repeats if with_replacement else places_of)(range(x.shape[0]), r)
    return x[torch.tensor(list(rows))]


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    var = torch.as_tensor(var, dtype=input.dtype)
    if var.shape == input.shape[:-1]:
        var = var[..., None]
    var = var.clamp_min(eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * torch.log(torch.tensor(2 * torch.pi))
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def lstsq(a: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """The solution; what else torch gives is empty."""
    empty = a.new_empty(0)
    return torch.return_types.linalg_lstsq((matrices.least_squares(torch, a, b), empty, empty, empty))


#: What torch.export cannot trace -> what it can.
INSTEAD: Mapping[Any, Callable[..., Any]] = {
    F.gaussian_nll_loss: gaussian_nll_loss,
    torch.Tensor.corrcoef: corrcoef,
    torch.Tensor.cov: cov,
    torch.combinations: combinations,
    torch.corrcoef: corrcoef,
    torch.cov: cov,
    torch.linalg.lstsq: lstsq,
}
