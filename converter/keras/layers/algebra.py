"""Products of tensors, and linear algebra of small matrices: made of others of ``keras.ops``.

Matrices are taken apart column by column, so a matrix of n rows becomes some ten operators for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from twinfer.converter.keras.call import composed
from twinfer.runtime.errors import UnsupportedOperatorError

ops = keras.ops

#: The largest matrix that is taken apart.
LARGEST = 32


def tensordot(own: Any, a: Any, b: Any) -> Any:
    axes = own.axes
    if isinstance(axes, int):
        left, right = list(range(len(a.shape) - axes, len(a.shape))), list(range(axes))
    else:
        left, right = (
            [int(i) % len(x.shape) for i in np.atleast_1d(np.asarray(v))] for x, v in zip((a, b), axes, strict=True)
        )
    rows = [i for i in range(len(a.shape)) if i not in left]
    columns = [i for i in range(len(b.shape)) if i not in right]
    depth = math.prod(a.shape[i] for i in left)
    x = ops.reshape(ops.transpose(a, rows + left), (-1, depth))
    y = ops.reshape(ops.transpose(b, right + columns), (depth, -1))
    return ops.reshape(ops.matmul(x, y), [a.shape[i] for i in rows] + [b.shape[i] for i in columns])


def dot(own: Any, a: Any, b: Any) -> Any:
    """Of the last dimension with the last but one."""
    if not len(a.shape) or not len(b.shape):
        return a * b
    return ops.tensordot(a, b, axes=[[len(a.shape) - 1], [max(len(b.shape) - 2, 0)]])


def inner(own: Any, a: Any, b: Any) -> Any:
    if not len(a.shape) or not len(b.shape):
        return a * b
    return ops.tensordot(a, b, axes=[[len(a.shape) - 1], [len(b.shape) - 1]])


def kron(own: Any, a: Any, b: Any) -> Any:
    rank = max(len(a.shape), len(b.shape))
    shapes = [(1,) * (rank - len(x.shape)) + tuple(x.shape) for x in (a, b)]
    left = ops.reshape(a, [n for d in shapes[0] for n in (d, 1)])
    right = ops.reshape(b, [n for d in shapes[1] for n in (1, d)])
    return ops.reshape(left * right, [m * n for m, n in zip(*shapes, strict=True)])


def cross(own: Any, a: Any, b: Any) -> Any:
    if getattr(own, "axis", None) is not None:
        first = second = last = own.axis
    else:
        first, second, last = own.axisa, own.axisb, own.axisc
    x, y = (ops.unstack(v, axis=axis % len(v.shape)) for v, axis in ((a, first), (b, second)))
    if len(x) != 3 or len(y) != 3:
        raise UnsupportedOperatorError("vectors of two numbers; give them a third, of zero")
    parts = [x[i] * y[j] - x[j] * y[i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return ops.stack(parts, axis=last)


def correlate(own: Any, a: Any, b: Any) -> Any:
    """A convolution whose kernel is the shorter of the two: the windows times it."""
    swapped = a.shape[0] < b.shape[0]
    long, short = (b, a) if swapped else (a, b)
    n, k = long.shape[0], short.shape[0]
    pads = {"valid": (0, 0), "full": (k - 1, k - 1), "same": (k // 2, k - 1 - k // 2)}[own.mode]
    padded = ops.pad(long, (pads,))
    at = np.arange(n + sum(pads) - k + 1)[:, None] + np.arange(k)
    y = ops.matmul(ops.take(padded, at.astype(np.int32), axis=0), ops.reshape(short, (k, 1)))
    y = ops.reshape(y, (-1,))
    return ops.flip(y, 0) if swapped else y


def _rows(a: Any) -> int:
    size = int(a.shape[-2])
    if size > LARGEST:
        raise UnsupportedOperatorError(f"matrices of {size} rows; at most {LARGEST} are taken apart")
    return size


def _column(i: int, n: int) -> Any:
    """The number i of n, as a mask [n, 1]."""
    return (np.arange(n) == i)[:, None]


def cholesky(own: Any, a: Any) -> Any:
    """One column of the lower factor after the other: what is left of a column over the root of its first element."""
    n, columns, rest = _rows(a), [], a
    for i in range(n):
        column = ops.where(np.arange(n)[:, None] >= i, rest[..., :, i : i + 1], np.float32(0))
        column = column * ops.rsqrt(column[..., i : i + 1, :])
        columns.append(column)
        rest = rest - ops.matmul(column, ops.swapaxes(column, -1, -2)) if i < n - 1 else rest
    lower = ops.concatenate(columns, axis=-1)
    return ops.swapaxes(lower, -1, -2) if own is not None and getattr(own, "upper", False) else lower


def _swapped(a: Any, i: int) -> tuple[Any, Any]:
    """The rows with row i and the one below with the largest element of column i changed places, and whether they are
    two."""
    n = a.shape[-2]
    size = ops.where(np.arange(n) >= i, ops.abs(a[..., :, i]), np.float32(-1))
    at = ops.argmax(size, axis=-1)
    other = ops.expand_dims(ops.one_hot(at, n), -1)  # [..., n, 1]
    mine = _column(i, n).astype(np.float32)
    change = ops.sum(a * other, axis=-2, keepdims=True) - a[..., i : i + 1, :]
    return a - (other - mine) * change, ops.not_equal(at, i)


def _eliminated(a: Any, n: int) -> tuple[Any, Any]:
    """[a | more columns] after Gauss's elimination with pivots, upper triangular in the first n columns, and the sign
    of the exchanges of rows, [...]."""
    signs = ops.ones(a.shape[:-2], "float32")
    for i in range(n):
        if i < n - 1:
            a, moved = _swapped(a, i)
            signs = ops.where(moved, -signs, signs)
        factors = (
            ops.where(np.arange(n)[:, None] > i, a[..., :, i : i + 1], np.float32(0)) / a[..., i : i + 1, i : i + 1]
        )
        a = a - factors * a[..., i : i + 1, :] if i < n - 1 else a
    return a, signs


def _back(a: Any, n: int) -> Any:
    """x of a x = b, where a is upper triangular, of [a | b]."""
    found: list[Any] = []
    for i in reversed(range(n)):
        total = a[..., i : i + 1, n:]
        for j, row in enumerate(reversed(found), start=i + 1):
            total = total - a[..., i : i + 1, j : j + 1] * row
        found.append(total / a[..., i : i + 1, i : i + 1])
    return ops.concatenate(found[::-1], axis=-2)


def solve(own: Any, a: Any, b: Any) -> Any:
    n, vector = _rows(a), len(b.shape) == len(a.shape) - 1
    b = ops.expand_dims(b, -1) if vector else b
    y = _back(_eliminated(ops.concatenate([a, b], axis=-1), n)[0], n)
    return ops.squeeze(y, -1) if vector else y


def solve_triangular(own: Any, a: Any, b: Any) -> Any:
    n, vector = _rows(a), len(b.shape) == len(a.shape) - 1
    b = ops.expand_dims(b, -1) if vector else b
    if own.lower:  # upside down it is an upper one
        a, b = ops.flip(ops.flip(a, -1), -2), ops.flip(b, -2)
    y = _back(ops.concatenate([a, b], axis=-1), n)
    y = ops.flip(y, -2) if own.lower else y
    return ops.squeeze(y, -1) if vector else y


def inverse(own: Any, a: Any) -> Any:
    n = _rows(a)
    return ops.solve(a, ops.broadcast_to(np.eye(n, dtype=np.float32), a.shape))


def _pivots(a: Any) -> tuple[Any, Any]:
    """What stands in the diagonal after elimination, [..., n], and the sign."""
    n = _rows(a)
    upper, sign = _eliminated(a, n)
    return ops.diagonal(upper, 0, len(a.shape) - 2, len(a.shape) - 1), sign


def determinant(own: Any, a: Any) -> Any:
    pivots, sign = _pivots(a)
    for i in range(pivots.shape[-1]):
        sign = sign * pivots[..., i]
    return sign


def sign_and_log(own: Any, a: Any) -> Any:
    pivots, sign = _pivots(a)
    for i in range(pivots.shape[-1]):
        sign = sign * ops.sign(pivots[..., i])
    return sign, ops.sum(ops.log(ops.abs(pivots)), axis=-1)


def factors(own: Any, a: Any) -> Any:
    """L and U in one matrix, and which rows changed places: after LAPACK's getrf."""
    n, rows = _rows(a), []
    for i in range(n):
        size = ops.where(np.arange(n) >= i, ops.abs(a[..., :, i]), np.float32(-1))
        rows.append(ops.argmax(size, axis=-1))
        a = _swapped(a, i)[0]
        below = np.arange(n)[:, None] > i
        share = ops.where(below, a[..., :, i : i + 1] / a[..., i : i + 1, i : i + 1], np.float32(0))
        rest = ops.where(np.arange(n)[None, :] > i, a[..., i : i + 1, :], np.float32(0))
        a = ops.where(below & (np.arange(n)[None, :] == i), share, a - share * rest)
    return a, ops.cast(ops.stack(rows, axis=-1), "int32")


def least_squares(own: Any, a: Any, b: Any) -> Any:
    """By the normal equations: a has more rows than columns, and columns that do not depend on each other."""
    if a.shape[-2] < a.shape[-1]:
        raise UnsupportedOperatorError("fewer equations than unknowns; use a product with a constant inverse")
    turned = ops.swapaxes(a, -1, -2)
    vector = len(b.shape) == len(a.shape) - 1
    y = ops.solve(ops.matmul(turned, a), ops.matmul(turned, ops.expand_dims(b, -1) if vector else b))
    return ops.squeeze(y, -1) if vector else y


def pseudo_inverse(own: Any, a: Any) -> Any:
    """Of full rank."""
    turned = ops.swapaxes(a, -1, -2)
    if a.shape[-2] >= a.shape[-1]:
        return ops.solve(ops.matmul(turned, a), turned)
    return ops.swapaxes(ops.solve(ops.matmul(a, turned), a), -1, -2)


def orthogonal(own: Any, a: Any) -> Any:
    """Q and R, where R has a diagonal below zero as LAPACK's usually has. Source: modified Gram-Schmidt."""
    if own.mode != "reduced" or a.shape[-2] < a.shape[-1]:
        raise UnsupportedOperatorError(
            f"mode {own.mode!r} of {list(a.shape)}; use mode reduced and as many rows as columns"
        )
    _rows(a)
    columns, rows, count = [], [], a.shape[-1]
    for i in range(count):
        column = a[..., i : i + 1]
        column = -column * ops.rsqrt(ops.sum(ops.square(column), axis=-2, keepdims=True))
        row = ops.matmul(ops.swapaxes(column, -1, -2), a)
        rows.append(ops.where(np.arange(count) >= i, row, np.float32(0)))
        a = a - ops.matmul(column, row)
        columns.append(column)
    return ops.concatenate(columns, axis=-1), ops.concatenate(rows, axis=-2)


def cholesky_inverse(own: Any, a: Any) -> Any:
    """The inverse of the matrix that has this factor."""
    turned = ops.swapaxes(a, -1, -2)
    return ops.inv(ops.matmul(turned, a) if own.upper else ops.matmul(a, turned))


def _refused(what: str) -> Callable[..., Any]:
    def run(own: Any, *args: Any) -> Any:
        raise UnsupportedOperatorError(
            f"{what} take as many steps as the numbers ask for; compute them beside the model"
        )

    return run


COMPOSED: dict[str, Callable[..., Any]] = {
    "Cholesky": cholesky,
    "CholeskyInverse": cholesky_inverse,
    "Correlate": correlate,
    "Cross": cross,
    "Det": determinant,
    "Dot": dot,
    "Inner": inner,
    "Inv": inverse,
    "Kron": kron,
    "Logdet": lambda own, a: ops.slogdet(a)[1],
    "Lstsq": least_squares,
    "LuFactor": factors,
    "Outer": lambda own, a, b: ops.reshape(a, (-1, 1)) * ops.reshape(b, (1, -1)),
    "Pinv": pseudo_inverse,
    "Qr": orthogonal,
    "Slogdet": sign_and_log,
    "Solve": solve,
    "SolveTriangular": solve_triangular,
    "Tensordot": tensordot,
    "Vdot": lambda own, a, b: ops.sum(ops.reshape(a, (-1,)) * ops.reshape(b, (-1,))),
    **dict.fromkeys(("Eig", "Eigh"), _refused("eigenvalues")),
    **dict.fromkeys(("MatrixRank", "SVD"), _refused("singular values")),
}

IMPORTERS = {f"ops.{name}": composed(function) for name, function in COMPOSED.items()}
