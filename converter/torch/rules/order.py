"""What depends on the order of elements: medians, running products and extremes, places in a sorted sequence."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

#: A value beyond all others, by type.
_HIGHEST = {torch.int32: 2**31 - 1, torch.int64: 2**63 - 1}


def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if not x.ndim:
        return x, torch.zeros((), dtype=torch.int64)
    values, places = torch.topk(x, k, dim, largest=False, sorted=True)
    values, places = values.narrow(dim, k - 1, 1), places.narrow(dim, k - 1, 1)
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


def median(x: Tensor) -> Tensor:
    return kthvalue(x.flatten(), (x.numel() + 1) // 2)[0]


def median_along(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return kthvalue(x, (x.shape[dim] + 1) // 2 if x.ndim else 1, dim, keepdim)


def nanmedian_along(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The median of what is no NaN: those go behind all others, and the middle is counted by what remains."""
    values, places = torch.where(x.isnan(), torch.finfo(x.dtype).max, x).sort(dim)
    count = x.isnan().logical_not().sum(dim, keepdim=True)
    middle = torch.div(count - 1, 2, rounding_mode="trunc").clamp_min(0)
    values, places = values.gather(dim, middle), places.gather(dim, middle)
    values = torch.where(count == 0, x.narrow(dim, 0, 1), values)
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest of the most frequent values, and its last place: every element is compared with every other."""
    rows = x.movedim(dim, -1)
    same = (rows[..., :, None] == rows[..., None, :]).to(torch.float32)
    often = same.sum(-1)
    most = often == often.amax(-1, keepdim=True)
    highest = torch.finfo(x.dtype).max if x.is_floating_point() else _HIGHEST[x.dtype]
    value = torch.where(most, rows, highest).amin(-1, keepdim=True)
    order = torch.arange(rows.shape[-1], dtype=torch.float32)
    place = torch.where(rows == value, order, -1.0).amax(-1, keepdim=True).long()
    value, place = value.movedim(-1, dim), place.movedim(-1, dim)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


def cumprod(x: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """Products of spans that double in length."""
    x = x if dtype is None else x.to(dtype)
    by = 1
    while x.ndim and by < x.shape[dim]:
        first, rest = x.narrow(dim, 0, by), x.narrow(dim, by, x.shape[dim] - by)
        x, by = torch.cat([first, rest * x.narrow(dim, 0, x.shape[dim] - by)], dim), 2 * by
    return x


def cumulative(largest: bool) -> Any:
    """Extremes of spans that double in length, and the places of the last of equal ones."""

    def extremes(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        shape = [-1 if i == dim % x.ndim else 1 for i in range(x.ndim)]
        places = torch.arange(x.shape[dim], dtype=torch.float32).reshape(shape).expand(x.shape)
        by = 1
        while by < x.shape[dim]:
            before, where = (
                torch.cat([t.narrow(dim, 0, by), t.narrow(dim, 0, x.shape[dim] - by)], dim) for t in (x, places)
            )
            keep = x >= before if largest else x <= before
            x, places, by = torch.where(keep, x, before), torch.where(keep, places, where), 2 * by
        return x, places.long()

    return extremes


def searchsorted(
    sorted_sequence: Tensor, x: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """How many elements of a sequence are smaller; with ``right`` smaller or equal."""
    sequence = sorted_sequence if sorter is None else sorted_sequence.gather(-1, sorter)
    x = x if isinstance(x, Tensor) else torch.tensor(x, dtype=sequence.dtype)
    sequence = sequence if sequence.ndim == 1 else sequence[..., None, :]
    before = sequence <= x[..., None] if right or side == "right" else sequence < x[..., None]
    return before.sum(-1).to(torch.int32 if out_int32 else torch.int64)


def bucketize(x: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    return searchsorted(boundaries, x, out_int32=out_int32, right=right)


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    elements, tests = torch.as_tensor(elements), torch.as_tensor(test_elements)
    found = (elements[..., None] == tests.flatten()).any(-1)
    return found.logical_not() if invert else found


def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The elements of the source one after another, where the mask is true: its running sum counts them."""
    shape = torch.broadcast_shapes(x.shape, mask.shape)
    mask = mask.expand(shape)
    order = mask.flatten().to(torch.float32).cumsum(0).long() - 1
    order = order.clamp(0, source.numel() - 1)
    return torch.where(mask, source.flatten()[order].reshape(shape), x)


def nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The places of the first elements that are not 0: their numbers are smaller than that of the others."""
    count = x.numel()
    order = torch.where(x.flatten() != 0, torch.arange(count, dtype=torch.float32), float(count))
    found = torch.topk(order, min(size, count), largest=False, sorted=True).values
    found = F.pad(found, (0, size - min(size, count)), value=count)
    at, places = found, []
    for extent in reversed(x.shape):
        places.append(at - extent * (at / extent).floor())
        at = (at / extent).floor()
    table = torch.stack(places[::-1], -1)
    return torch.where(found[:, None] < count, table, float(fill_value)).long()


RULES: dict[str, Any] = {
    "bucketize.Tensor": bucketize,
    "cummax": cumulative(True),
    "cummin": cumulative(False),
    "cumprod": cumprod,
    "kthvalue": kthvalue,
    "masked_scatter": masked_scatter,
    "median": median,
    "median.dim": median_along,
    "mode": mode,
    "nanmedian.dim": nanmedian_along,
    "nonzero_static": nonzero_static,
}
RULES |= {f"searchsorted.{kind}": searchsorted for kind in ("Tensor", "Scalar")}
RULES |= {f"isin.{kind}": isin for kind in ("Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")}
