"""Linear algebra on small matrices, spelled out row by row; distances between points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from twinfer.runtime.errors import UnsupportedOperatorError

#: The largest matrix that is spelled out: each row takes about twenty operators.
LARGEST = 16


def _order(a: Tensor) -> int:
    """The order of square matrices; UnsupportedOperatorError if it is too large."""
    if a.shape[-1] > LARGEST:
        raise UnsupportedOperatorError(
            f"torch.linalg of {a.shape[-2]} x {a.shape[-1]} matrices at run time; the limit is {LARGEST} x {LARGEST}: "
            "end the model before it and leave it to the program that runs the model"
        )
    return int(a.shape[-1])


def _eye(n: int, like: Tensor) -> Tensor:
    return torch.eye(n, dtype=like.dtype)


def _swapped(rows: Tensor, column: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows [..., n, m] with that of the largest magnitude in the column first, as first row and others; and which it
    was."""
    best = rows[..., column].abs().argmax(-1, keepdim=True)
    chosen = (torch.arange(rows.shape[-2]) == best)[..., None]
    first = torch.where(chosen, rows, 0.0).sum(-2, keepdim=True)
    return first, torch.where(chosen, rows[..., :1, :], rows)[..., 1:, :], best


def _eliminated(a: Tensor, b: Tensor | None) -> tuple[Tensor | None, list[Tensor], list[Tensor]]:
    """Gauss-Jordan elimination with row pivots: the solution x of a x = b, all pivots, and which rows they were in."""
    n = _order(a)
    rest, done = a if b is None else torch.cat([a, b], -1), None
    pivots, places = [], []
    for _ in range(n):
        first, rest, best = _swapped(rest, 0)
        pivots.append(first[..., 0, 0])
        places.append(best[..., 0])
        row = first[..., 1:] / first[..., :1]
        rest = rest[..., 1:] - rest[..., :1] * row
        if b is not None:
            done = row if done is None else torch.cat([done[..., 1:] - done[..., :1] * row, row], -2)
    return done, pivots, places


def solve(a: Tensor, b: Tensor, *, left: bool = True) -> Tensor:
    if not left:
        return solve(a.mT, b.mT).mT
    is_vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    right = b[..., None] if is_vector else b
    batch = torch.broadcast_shapes(a.shape[:-2], right.shape[:-2])
    x, _, _ = _eliminated(a.expand(*batch, *a.shape[-2:]), right.expand(*batch, *right.shape[-2:]))
    x = right if x is None else x
    return x[..., 0] if is_vector else x


def inverse(a: Tensor) -> Tensor:
    return solve(a, _eye(a.shape[-1], a))


def slogdet(a: Tensor) -> tuple[Tensor, Tensor]:
    """The sign and the logarithm of the magnitude of the determinant, which are those of its pivots."""
    _, pivots, places = _eliminated(a, None)
    sign = torch.ones(a.shape[:-2], dtype=a.dtype)
    for pivot, place in zip(pivots, places, strict=True):
        sign = sign * pivot.sign() * torch.where(place == 0, 1.0, -1.0)
    return sign, torch.stack(pivots, -1).abs().log().sum(-1)


def det(a: Tensor) -> Tensor:
    _, pivots, places = _eliminated(a, None)
    result = pivots[0]
    for pivot, place in zip(pivots[1:], places, strict=False):
        result = result * pivot * torch.where(place == 0, 1.0, -1.0)
    return result


def logdet(a: Tensor) -> Tensor:
    sign, magnitude = slogdet(a)
    return magnitude + sign.log()


def tensorinv(a: Tensor, ind: int = 2) -> Tensor:
    n = math.prod(a.shape[:ind])
    return inverse(a.reshape(n, n)).reshape(*a.shape[ind:], *a.shape[:ind])


def tensorsolve(a: Tensor, b: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    if dims is not None:
        a = a.movedim(list(dims), list(range(a.ndim - len(dims), a.ndim)))
    return solve(a.reshape(b.numel(), -1), b.flatten()).reshape(a.shape[b.ndim :])


def lu(a: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Permutation, lower and upper factor of square matrices."""
    packed, _, order = _packed(a, pivot)
    n = a.shape[-1]
    return order.mT, packed.tril(-1) + _eye(n, a), packed.triu()


def lu_factor(a: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor]:
    packed, places, _ = _packed(a, pivot)
    return packed, places


def _packed(a: Tensor, pivot: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Both factors in one matrix, the rows that were swapped with each, and the permutation as a matrix."""
    n = _order(a)
    if a.shape[-2] != n:
        raise UnsupportedOperatorError("torch.linalg.lu of matrices that are not square; pad them")
    rest, done, places = torch.cat([a, _eye(n, a).expand(a.shape)], -1), [], []
    for k in range(n):
        if pivot:
            first, rest, best = _swapped(rest, k)
        else:
            first, rest, best = rest[..., :1, :], rest[..., 1:, :], torch.zeros((*a.shape[:-2], 1), dtype=torch.int64)
        done.append(first)
        places.append(best + k + 1)
        factor = rest[..., k : k + 1] / first[..., k : k + 1]
        rest = torch.cat(
            [rest[..., :k], factor, rest[..., k + 1 : n] - factor * first[..., k + 1 : n], rest[..., n:]], -1
        )
    rows = torch.cat(done, -2)
    return rows[..., :n], torch.cat(places, -1).int(), rows[..., n:]


def cholesky(a: Tensor, upper: bool = False) -> Tensor:
    """The lower factor of symmetric positive definite matrices, column by column."""
    n = _order(a)
    factor = a[..., :0]
    for k in range(n):
        column = a[..., k:, k : k + 1]
        if k:
            column = column - (factor[..., k:, :] * factor[..., k : k + 1, :]).sum(-1, keepdim=True)
        column = column / column[..., :1, :].sqrt()
        column = torch.nn.functional.pad(column, (0, 0, k, 0))
        factor = torch.cat([factor, column], -1) if k else column
    return factor.mT if upper else factor


def solve_triangular(a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """Rows one after another, each from those before it: from the last to the first if the matrix is an upper one."""
    if not left:
        return solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular).mT
    n = _order(a)
    rows: dict[int, Tensor] = {}
    for i in range(n)[:: -1 if upper else 1]:
        row = b[..., i : i + 1, :]
        if rows:
            seen = sorted(rows)
            row = row - a[..., i : i + 1, seen[0] : seen[-1] + 1] @ torch.cat([rows[k] for k in seen], -2)
        rows[i] = row if unitriangular else row / a[..., i : i + 1, i : i + 1]
    return torch.cat([rows[i] for i in range(n)], -2)


def cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    lower = factor.mT if upper else factor
    return solve_triangular(lower.mT, solve_triangular(lower, b, upper=False), upper=True)


def cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    return cholesky_solve(_eye(factor.shape[-1], factor), factor, upper)


def triangular_solve(
    b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    a, upper = (a.mT, not upper) if transpose else (a, upper)
    return solve_triangular(a, b, upper=upper, unitriangular=unitriangular), a


def qr(a: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """By Householder's reflections, with LAPACK's signs: a diagonal element has the other sign than its column's
    first."""
    m, n = a.shape[-2:]
    _order(a if n >= m else a.mT)
    q = _eye(m, a).expand(*a.shape[:-2], m, m)
    for k in range(min(m - 1, n)):
        x = a[..., k:, k : k + 1]
        length = torch.linalg.vector_norm(x, dim=-2, keepdim=True)
        head = x[..., :1, :]
        v = torch.cat([head + torch.where(head < 0, -length, length), x[..., 1:, :]], -2)
        v = torch.nn.functional.pad(v, (0, 0, k, 0))
        scale = 2 / (v * v).sum(-2, keepdim=True).clamp_min(torch.finfo(a.dtype).tiny)
        a = a - scale * v @ (v.mT @ a)
        q = q - scale * (q @ v) @ v.mT
    size = m if mode == "complete" else min(m, n)
    return (a[..., :0] if mode == "r" else q[..., :size]), a[..., :size, :].triu()


def householder_product(a: Tensor, tau: Tensor) -> Tensor:
    """The first columns of the product of I - tau v v^T, where v is 1 on the diagonal and 0 above it."""
    m, n = a.shape[-2:]
    vectors = a.tril(-1) + torch.eye(m, n, dtype=a.dtype)
    q = torch.eye(m, n, dtype=a.dtype).expand(a.shape)
    for k in range(tau.shape[-1])[::-1]:
        v = vectors[..., k : k + 1]
        q = q - tau[..., k : k + 1, None] * v @ (v.mT @ q)
    return q


def matrix_exp(a: Tensor) -> Tensor:
    """Taylor's series of a / 64, of degree 8, squared six times: to 1e-5 for norms of up to about 30."""
    small, term = a / 64, _eye(a.shape[-1], a)
    result = term
    for k in range(1, 9):
        term = term @ small / k
        result = result + term
    for _ in range(6):
        result = result @ result
    return result


def vander(x: Tensor, n: int | None, increasing: bool) -> Tensor:
    """Powers, as products."""
    powers = [torch.ones_like(x)]
    for _ in range((x.shape[-1] if n is None else n) - 1):
        powers.append(powers[-1] * x)
    return torch.stack(powers if increasing else powers[::-1], -1)


def cdist(x: Tensor, y: Tensor, p: float = 2.0, compute_mode: int | None = None) -> Tensor:
    return torch.linalg.vector_norm(x[..., :, None, :] - y[..., None, :, :], p, -1)


def pdist(x: Tensor, p: float = 2.0) -> Tensor:
    i, j = torch.triu_indices(x.shape[0], x.shape[0], 1).unbind(0)
    return torch.linalg.vector_norm(x.index_select(0, i) - x.index_select(0, j), p, -1)


RULES: dict[str, Any] = {
    "cdist": cdist,
    "cholesky": cholesky,
    "cholesky_inverse": cholesky_inverse,
    "cholesky_solve": cholesky_solve,
    "inverse": inverse,
    "linalg_cholesky": lambda a, *, upper=False: cholesky(a, upper),
    "linalg_householder_product": householder_product,
    "linalg_inv": inverse,
    "linalg_lu": lu,
    "linalg_lu_factor": lu_factor,
    "linalg_qr": qr,
    "linalg_solve": solve,
    "linalg_solve_triangular": solve_triangular,
    "linalg_tensorinv": tensorinv,
    "linalg_tensorsolve": tensorsolve,
    "linalg_vander": lambda x, *, N=None: vander(x, N, True),
    "logdet": logdet,
    "orgqr": householder_product,
    "pdist": pdist,
    "qr": lambda a, some=True: qr(a, "reduced" if some else "complete"),
    "triangular_solve": triangular_solve,
    "vander": lambda x, N=None, increasing=False: vander(x, N, increasing),
}
RULES |= {f"{prefix}{f.__name__}": f for f in (det, slogdet, matrix_exp) for prefix in ("", "linalg_")}
