"""Linear algebra on small matrices, by ``matrices``; distances between points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from twinfer.converter import matrices


def solve(a: Tensor, b: Tensor, *, left: bool = True) -> Tensor:
    return matrices.solve(torch, a, b) if left else matrices.solve(torch, a.mT, b.mT).mT


def inverse(a: Tensor) -> Tensor:
    return matrices.inverse(torch, a)


def slogdet(a: Tensor) -> tuple[Tensor, Tensor]:
    return matrices.slogdet(torch, a)


def det(a: Tensor) -> Tensor:
    return matrices.det(torch, a)


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
    packed, _, permutation = matrices.lu(torch, a, pivot=pivot)
    return permutation.mT, packed.tril(-1) + torch.eye(a.shape[-1], dtype=a.dtype), packed.triu()


def lu_factor(a: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor]:
    packed, places, _ = matrices.lu(torch, a, pivot=pivot)
    return packed, (places + 1).int()


def cholesky(a: Tensor, upper: bool = False) -> Tensor:
    return matrices.cholesky(torch, a, upper)


def solve_triangular(a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    if not left:
        return solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular).mT
    return matrices.solve_triangular(torch, a, b, upper=upper, unit=unitriangular)


def cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    lower = factor.mT if upper else factor
    return solve_triangular(lower.mT, solve_triangular(lower, b, upper=False), upper=True)


def cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    return cholesky_solve(torch.eye(factor.shape[-1], dtype=factor.dtype), factor, upper)


def triangular_solve(
    b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    a, upper = (a.mT, not upper) if transpose else (a, upper)
    return solve_triangular(a, b, upper=upper, unitriangular=unitriangular), a


def qr(a: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    q, r = matrices.qr(torch, a, mode)
    return (a[..., :0] if mode == "r" else q), r


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
    small, term = a / 64, torch.eye(a.shape[-1], dtype=a.dtype)
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
    "linalg_pinv": lambda a, rcond=1e-15, hermitian=False: matrices.pseudo_inverse(torch, a),
    "linalg_pinv.atol_rtol_tensor": lambda a, **_: matrices.pseudo_inverse(torch, a),
    "linalg_qr": qr,
    "linalg_solve": solve,
    "linalg_solve_triangular": solve_triangular,
    "linalg_tensorinv": tensorinv,
    "linalg_tensorsolve": tensorsolve,
    "linalg_vander": lambda x, *, N=None: vander(x, N, True),
    "logdet": logdet,
    "pinverse": lambda a, rcond=1e-15: matrices.pseudo_inverse(torch, a),
    "orgqr": householder_product,
    "pdist": pdist,
    "qr": lambda a, some=True: qr(a, "reduced" if some else "complete"),
    "triangular_solve": triangular_solve,
    "vander": lambda x, N=None, increasing=False: vander(x, N, increasing),
}
RULES |= {f"{prefix}{f.__name__}": f for f in (det, slogdet, matrix_exp) for prefix in ("", "linalg_")}
