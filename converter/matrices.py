"""Linear algebra of small matrices, spelled out row by row: some ten to twenty operators for each.

Every function takes first the module whose functions it calls, which is ``torch`` or ``keras.ops``: it says here only
what both of them have under the same name. Matrices are [..., n, m].
"""

from __future__ import annotations

from typing import Any

from twinfer.runtime.errors import UnsupportedOperatorError

#: The largest matrix that is spelled out.
LARGEST = 16


def order(a: Any) -> int:
    """The order of square matrices; UnsupportedOperatorError if it is too large."""
    rows, columns = (int(n) for n in a.shape[-2:])
    if max(rows, columns) > LARGEST:
        raise UnsupportedOperatorError(
            f"linear algebra of {rows} x {columns} matrices at run time; the limit is {LARGEST} x {LARGEST}: end the "
            "model before it and leave it to the program that runs the model"
        )
    return columns


def turned(f: Any, a: Any) -> Any:
    return f.swapaxes(a, -1, -2)


def _eyes(f: Any, a: Any, n: int) -> Any:
    """A unit matrix [..., n, n] for each matrix."""
    return f.broadcast_to(f.eye(n, dtype=a.dtype), (*a.shape[:-2], n, n))


def _swapped(f: Any, rows: Any, column: int) -> tuple[Any, Any, Any]:
    """Rows [..., n, m] with that of the largest magnitude in the column first, as first row and others; and which it
    was, [..., 1]."""
    best = f.argmax(f.abs(rows[..., column]), axis=-1)[..., None]
    other = f.not_equal(f.arange(rows.shape[-2]), best)[..., None]
    first = f.sum(f.where(other, 0.0, rows), axis=-2, keepdims=True)
    return first, f.where(other, rows, rows[..., :1, :])[..., 1:, :], best


def _eliminated(f: Any, a: Any, b: Any = None) -> tuple[Any, list[Any], list[Any]]:
    """Gauss-Jordan elimination with row pivots: the solution x of a x = b, all pivots [...], and by which sign of the
    determinant each row came first."""
    rest, done = a if b is None else f.concatenate([a, b], -1), None
    pivots, signs = [], []
    for _ in range(order(a)):
        first, rest, best = _swapped(f, rest, 0)
        pivots.append(first[..., 0, 0])
        signs.append(f.where(f.not_equal(best[..., 0], 0), -1.0, 1.0))
        row = first[..., 1:] / first[..., :1]
        rest = rest[..., 1:] - rest[..., :1] * row
        if b is not None:
            done = row if done is None else f.concatenate([done[..., 1:] - done[..., :1] * row, row], -2)
    return done, pivots, signs


def solve(f: Any, a: Any, b: Any) -> Any:
    """x of a x = b; b may be vectors [..., n]."""
    vector = len(b.shape) == 1 or (len(b.shape) == len(a.shape) - 1 and b.shape == a.shape[:-1])
    b = b[..., None] if vector else b
    if a.shape[:-2] != b.shape[:-2]:
        rank = max(len(a.shape), len(b.shape)) - 2
        shapes = [(*(1,) * (rank + 2 - len(x.shape)), *x.shape)[:rank] for x in (a, b)]
        batch = [max(pair) for pair in zip(*shapes, strict=True)]
        a, b = (f.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))
    x = _eliminated(f, a, b)[0]
    return x[..., 0] if vector else x


def inverse(f: Any, a: Any) -> Any:
    return solve(f, a, _eyes(f, a, a.shape[-1]))


def det(f: Any, a: Any) -> Any:
    _, pivots, signs = _eliminated(f, a)
    result = pivots[0]
    for pivot, sign in zip(pivots[1:], signs, strict=False):
        result = result * pivot * sign
    return result


def slogdet(f: Any, a: Any) -> tuple[Any, Any]:
    """The sign and the logarithm of the magnitude of the determinant, which are those of its pivots."""
    _, pivots, signs = _eliminated(f, a)
    sign = f.sign(pivots[0])
    for pivot, each in zip(pivots[1:], signs, strict=False):
        sign = sign * f.sign(pivot) * each
    return sign, f.sum(f.log(f.abs(f.stack(pivots, -1))), axis=-1)


def lu(f: Any, a: Any, *, pivot: bool = True) -> tuple[Any, Any, Any]:
    """The lower and the upper factor of square matrices in one, which row was swapped with each [..., n], and the
    permutation as a matrix."""
    n, places = order(a), []
    if a.shape[-2] != n:
        raise UnsupportedOperatorError("the factors L and U of matrices that are not square; pad them")
    rest, done = f.concatenate([a, _eyes(f, a, n)], -1), []
    for k in range(n):
        first, others, best = _swapped(f, rest, k)
        first, rest = (first, others) if pivot else (rest[..., :1, :], rest[..., 1:, :])
        done.append(first)
        places.append(best + k if pivot else best * 0 + k)
        factor = rest[..., k : k + 1] / first[..., k : k + 1]
        parts = [rest[..., :k], factor, rest[..., k + 1 : n] - factor * first[..., k + 1 : n], rest[..., n:]]
        rest = f.concatenate(parts, -1)
    rows = f.concatenate(done, -2)
    return rows[..., :n], f.concatenate(places, -1), rows[..., n:]


def cholesky(f: Any, a: Any, upper: bool = False) -> Any:
    """The lower factor of symmetric positive definite matrices, column by column."""
    factor = None
    for k in range(order(a)):
        column = a[..., k:, k : k + 1]
        if factor is not None:
            column = column - f.sum(factor[..., k:, :] * factor[..., k : k + 1, :], axis=-1, keepdims=True)
        column = column / f.sqrt(column[..., :1, :])
        if factor is not None:
            column = f.concatenate([f.zeros_like(a[..., :k, :1]), column], -2)
        factor = column if factor is None else f.concatenate([factor, column], -1)
    return turned(f, factor) if upper else factor


def solve_triangular(f: Any, a: Any, b: Any, *, upper: bool, unit: bool = False) -> Any:
    """Rows of x one after another, each from those before it: from the last to the first if the matrix is an upper one.
    ``unit``: its diagonal counts as 1."""
    n, vector = order(a), len(b.shape) == len(a.shape) - 1
    b, rows = b[..., None] if vector else b, dict[int, Any]()
    for i in range(n)[:: -1 if upper else 1]:
        row = b[..., i : i + 1, :]
        if rows:
            seen = sorted(rows)
            known = f.concatenate([rows[k] for k in seen], -2)
            row = row - f.matmul(a[..., i : i + 1, seen[0] : seen[-1] + 1], known)
        rows[i] = row if unit else row / a[..., i : i + 1, i : i + 1]
    x = f.concatenate([rows[i] for i in range(n)], -2)
    return x[..., 0] if vector else x


def least_squares(f: Any, a: Any, b: Any) -> Any:
    """By the normal equations: a has more rows than columns, and columns that do not depend on each other."""
    if a.shape[-2] < a.shape[-1]:
        raise UnsupportedOperatorError("fewer equations than unknowns; use a product with a constant inverse")
    vector = len(b.shape) == len(a.shape) - 1
    x = solve(f, f.matmul(turned(f, a), a), f.matmul(turned(f, a), b[..., None] if vector else b))
    return x[..., 0] if vector else x


def pseudo_inverse(f: Any, a: Any) -> Any:
    """Of full rank."""
    if a.shape[-2] >= a.shape[-1]:
        return least_squares(f, a, _eyes(f, a, a.shape[-2]))
    return turned(f, solve(f, f.matmul(a, turned(f, a)), a))


def qr(f: Any, a: Any, mode: str = "reduced") -> tuple[Any, Any]:
    """By Householder's reflections, with LAPACK's signs: a diagonal element has the other sign than its column's
    first."""
    m, n = a.shape[-2:]
    order(a)
    q = _eyes(f, a, m)
    for k in range(min(m - 1, n)):
        x = a[..., k:, k : k + 1]
        length = f.sqrt(f.sum(x * x, axis=-2, keepdims=True))
        head = x[..., :1, :]
        v = f.concatenate([head + f.where(head < 0, -length, length), x[..., 1:, :]], -2)
        v = f.concatenate([f.zeros_like(a[..., :k, :1]), v], -2) if k else v
        scale = 2 / (f.sum(v * v, axis=-2, keepdims=True) + 1e-37)
        a = a - f.matmul(scale * v, f.matmul(turned(f, v), a))
        q = q - f.matmul(scale * f.matmul(q, v), turned(f, v))
    size = m if mode == "complete" else min(m, n)
    return q[..., :size], f.triu(a[..., :size, :])
