"""Linear algebra of small matrices, beside torch's own."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from twinfer.converter import matrices  # noqa: E402


@pytest.mark.parametrize("shape", [(4, 4), (3, 3, 3), (2, 3, 5, 5), (1, 1)])
def test_as_torch(shape: tuple[int, ...]) -> None:
    """Three matrices of three rows are no vectors."""
    torch.manual_seed(0)
    a, b = torch.randn(shape), torch.randn(*shape[:-1], 2)
    positive, tall = a @ a.mT + torch.eye(shape[-1]), torch.randn(*shape[:-2], shape[-1] + 2, shape[-1])
    packed, places, _ = matrices.lu(torch, a)
    pairs = [
        (matrices.det(torch, a), torch.det(a)),
        (matrices.slogdet(torch, a), torch.slogdet(a)),
        (matrices.inverse(torch, a), torch.inverse(a)),
        (matrices.solve(torch, a, b), torch.linalg.solve(a, b)),
        (matrices.cholesky(torch, positive, True), torch.linalg.cholesky(positive, upper=True)),
        (matrices.qr(torch, tall), torch.linalg.qr(tall)),
        (matrices.qr(torch, a.mT, "complete"), torch.linalg.qr(a.mT, "complete")),
        ((packed, (places + 1).int()), torch.linalg.lu_factor(a)),
        (matrices.pseudo_inverse(torch, tall), torch.linalg.pinv(tall)),
        (matrices.pseudo_inverse(torch, tall.mT), torch.linalg.pinv(tall.mT)),
        (matrices.solve_triangular(torch, positive.triu(), b, upper=True),
         torch.linalg.solve_triangular(positive.triu(), b, upper=True)),
    ]  # fmt: skip
    for got, want in pairs:
        for mine, theirs in zip(
            torch.utils._pytree.tree_leaves(got), tuple(want) if isinstance(want, tuple) else (want,), strict=True
        ):
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-3)
