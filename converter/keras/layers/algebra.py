"""Products of tensors, and linear algebra of small matrices (``matrices``): made of others of ``keras.ops``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from twinfer.converter import matrices
from twinfer.converter.keras.call import composed
from twinfer.runtime.errors import UnsupportedOperatorError

ops = keras.ops


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


def factors(own: Any, a: Any) -> Any:
    """L and U in one matrix, and which rows changed places: after LAPACK's getrf."""
    packed, places, _ = matrices.lu(ops, a)
    return packed, ops.cast(places, "int32")


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
    "Cholesky": lambda own, a: matrices.cholesky(ops, a, getattr(own, "upper", False)),
    "CholeskyInverse": cholesky_inverse,
    "Correlate": correlate,
    "Cross": cross,
    "Det": lambda own, a: matrices.det(ops, a),
    "Dot": dot,
    "Inner": inner,
    "Inv": lambda own, a: matrices.inverse(ops, a),
    "Kron": kron,
    "Logdet": lambda own, a: ops.slogdet(a)[1],
    "Lstsq": lambda own, a, b: matrices.least_squares(ops, a, b),
    "LuFactor": factors,
    "Outer": lambda own, a, b: ops.reshape(a, (-1, 1)) * ops.reshape(b, (1, -1)),
    "Pinv": lambda own, a: matrices.pseudo_inverse(ops, a),
    "Qr": lambda own, a: matrices.qr(ops, a, own.mode),
    "Slogdet": lambda own, a: matrices.slogdet(ops, a),
    "Solve": lambda own, a, b: matrices.solve(ops, a, b),
    "SolveTriangular": lambda own, a, b: matrices.solve_triangular(ops, a, b, upper=not own.lower),
    "Tensordot": tensordot,
    "Vdot": lambda own, a, b: ops.sum(ops.reshape(a, (-1,)) * ops.reshape(b, (-1,))),
    **dict.fromkeys(("Eig", "Eigh"), _refused("eigenvalues")),
    **dict.fromkeys(("MatrixRank", "SVD"), _refused("singular values")),
}

IMPORTERS = {f"ops.{name}": composed(function) for name, function in COMPOSED.items()}
