"""Every function of ``keras.ops`` that makes sense on tensors of known shapes, in a functional model: Keras 3.15."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from keras import ops

Made = Callable[..., Any]
#: Name of the function and what is special, the function over tensors, and its inputs.
Row = tuple[str, Made, tuple[Any, ...]]


def _rng(seed: int = 7) -> np.random.Generator:
    return np.random.default_rng(seed)


def real(*shape: int, low: float = -2.5, high: float = 2.5, seed: int = 7) -> Any:
    return _rng(seed).uniform(low, high, shape).astype(np.float32)


def whole(*shape: int, low: int = -9, high: int = 10, seed: int = 7) -> Any:
    return _rng(seed).integers(low, high, shape).astype(np.int32)


def flags(*shape: int, seed: int = 7) -> Any:
    return _rng(seed).random(shape) < 0.5


def holes(*shape: int, infinite: bool = False) -> Any:
    """Floats, some of which are NaN, or infinite."""
    x = real(*shape)
    x.flat[1::5] = np.nan
    if infinite:
        x.flat[2::7], x.flat[3::7] = np.inf, -np.inf
    return x


def positive(*shape: int, seed: int = 7) -> Any:
    return real(*shape, low=0.2, high=4.0, seed=seed)


def definite(n: int = 4) -> Any:
    """Symmetric matrices [2, n, n] with positive eigenvalues."""
    a = real(2, n, n)
    return (a @ a.transpose(0, 2, 1) + np.eye(n)).astype(np.float32)


X, Y = real(3, 4, 5), real(3, 4, 5, seed=8)
UNIT = real(3, 5, low=-0.95, high=0.95)
IMAGES = real(2, 8, 9, 3, low=0, high=1)


def elementwise() -> Iterator[Row]:
    for name in (
        "abs", "absolute", "arcsinh", "arctan", "cbrt", "ceil", "celu", "conj", "conjugate", "cos", "cosh", "deg2rad",
        "elu", "erf", "erfc", "exp", "exp2", "expm1", "fabs", "floor", "gelu", "hard_shrink", "hard_sigmoid",
        "hard_silu", "hard_swish", "hard_tanh", "i0", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "isreal",
        "leaky_relu", "log_sigmoid", "negative", "rad2deg", "real", "relu", "relu6", "round", "selu", "sigmoid",
        "sign", "signbit", "silu", "sin", "sinc", "sinh", "soft_shrink", "softplus", "softsign", "sparse_plus",
        "sparse_sigmoid", "square", "squareplus", "swish", "tan", "tanh", "tanh_shrink", "trunc", "angle",
    ):  # fmt: skip
        if name.startswith("is"):
            x = holes(3, 5, infinite=True)
        else:
            x = real(3, 5, low=-1.4, high=1.4) if name == "tan" else real(3, 5)
        yield name, getattr(ops, name), (x,)
    for name in ("arccos", "arcsin", "arctanh", "erfinv"):
        yield name, getattr(ops, name), (UNIT,)
    for name in ("log", "log10", "log1p", "log2", "reciprocal", "rsqrt", "sqrt"):
        yield name, getattr(ops, name), (positive(3, 5),)
    yield "arccosh", ops.arccosh, (positive(3, 5) + 1,)
    yield "gelu exact", lambda x: ops.gelu(x, approximate=False), (X,)
    yield "round decimals", lambda x: ops.round(x, 1), (X,)
    yield "threshold", lambda x: ops.threshold(x, 0.3, -1.0), (X,)
    yield "clip", lambda x: ops.clip(x, -1.0, 0.5), (X,)
    yield "clip integers", lambda x: ops.clip(x, -3, 4), (whole(3, 5),)
    yield "nan_to_num", lambda x: ops.nan_to_num(x, nan=1.0, posinf=9.0, neginf=-9.0), (holes(3, 5, infinite=True),)
    yield "abs integers", ops.abs, (whole(3, 5),)
    yield "sign integers", ops.sign, (whole(3, 5),)
    yield "cast", lambda x: ops.cast(x, "int32"), (X,)
    yield "cast bool", lambda x: ops.cast(x, "bool"), (whole(3, 5, low=0, high=2),)
    yield "saturate_cast", lambda x: ops.saturate_cast(x, "uint8"), (X * 200,)
    yield "view", lambda x: ops.view(x, "int32"), (X,)
    yield "stop_gradient", ops.stop_gradient, (X,)
    yield "copy", ops.copy, (X,)
    yield "convert_to_tensor", ops.convert_to_tensor, (X,)
    for name in ("bitwise_invert", "bitwise_not"):
        yield name, getattr(ops, name), (whole(3, 5),)
    yield "logical_not", ops.logical_not, (flags(3, 5),)


def binary() -> Iterator[Row]:
    for name in (
        "add", "arctan2", "divide", "equal", "fmax", "fmin", "greater", "greater_equal", "heaviside", "hypot",
        "isclose", "less", "less_equal", "logaddexp", "logaddexp2", "maximum", "minimum", "multiply", "not_equal",
        "subtract", "true_divide", "divide_no_nan", "fmod", "mod", "floor_divide",
    ):  # fmt: skip
        yield name, getattr(ops, name), (X, real(4, 1, seed=9))
    for name in ("equal", "floor_divide", "fmod", "mod", "multiply", "gcd", "lcm", "power"):
        low = 0 if name == "power" else 1
        yield f"{name} integers", getattr(ops, name), (whole(3, 5), whole(3, 5, low=low, high=5, seed=9))
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        yield name, getattr(ops, name), (whole(3, 5), whole(3, 5, seed=9))
    for name in ("bitwise_left_shift", "bitwise_right_shift", "left_shift", "right_shift"):
        yield name, getattr(ops, name), (whole(3, 5), whole(3, 5, low=0, high=5))
    yield "left_shift by a number", lambda x: ops.left_shift(x, 3), (whole(3, 5),)
    for name in ("logical_and", "logical_or", "logical_xor"):
        yield name, getattr(ops, name), (flags(3, 5), flags(3, 5, seed=9))
    yield "power", ops.power, (positive(3, 5), real(3, 5))
    yield "power 3", lambda x: ops.power(x, 3.0), (X,)
    yield "ldexp", ops.ldexp, (X, whole(3, 4, 5, low=-3, high=4))
    yield "nextafter", ops.nextafter, (X, Y)
    yield "allclose", ops.allclose, (X, Y)
    yield "where", lambda c, x, y: ops.where(c, x, y), (flags(3, 4, 5), X, Y)
    yield "where broadcast", lambda c, x: ops.where(c, x, 0.5), (flags(3, 1, 5), X)
    select = lambda a, b, x, y: ops.select([a, b], [x, y], default=0.5)  # noqa: E731
    yield "select", select, (flags(3, 4, 5), flags(3, 4, 5, seed=9), X, Y)
    yield "polar", lambda a, b: ops.abs(ops.polar(a, b)), (positive(3, 5), real(3, 5))


def reductions() -> Iterator[Row]:
    for name in (
        "amax", "amin", "average", "logsumexp", "max", "mean", "median", "min", "prod", "ptp", "std",
        "sum", "var", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar", "nanmedian",
    ):  # fmt: skip
        x = holes(3, 4, 5) if name.startswith("nan") else X
        yield name, lambda x, n=name: getattr(ops, n)(x, axis=1), (x,)
        yield f"{name} of all", getattr(ops, name), (x,)
    for name in ("argmax", "argmin", "nanargmax", "nanargmin"):
        x = holes(3, 4, 5) if name.startswith("nan") else X
        yield name, lambda x, n=name: getattr(ops, n)(x, axis=1), (x,)
        yield f"{name} of all", getattr(ops, name), (x,)
    yield "count_nonzero", lambda x: ops.count_nonzero(x, axis=(0, 1)), (whole(3, 4, 5, low=0, high=3),)
    for name in ("all", "any"):
        yield name, lambda x, n=name: getattr(ops, n)(x, axis=1), (flags(3, 4, 5),)
    yield "average weights", lambda x, w: ops.average(x, axis=2, weights=w), (X, positive(3, 4, 5))
    yield "max initial", lambda x: ops.max(x, axis=1, initial=0.5), (X,)
    yield "sum integers", lambda x: ops.sum(x, axis=(0, 2), keepdims=True), (whole(3, 4, 5),)
    for name in ("quantile", "nanquantile"):
        x = holes(3, 4, 5) if name.startswith("nan") else X
        yield name, lambda x, n=name: getattr(ops, n)(x, [0.1, 0.75], axis=1), (x,)
    yield "percentile", lambda x: ops.percentile(x, 30, axis=1), (X,)
    yield "nanpercentile", lambda x: ops.nanpercentile(x, 30, axis=1), (holes(3, 4, 5),)
    yield "moments", lambda x: ops.moments(x, axes=[0, 2]), (X,)
    for name in ("cumsum", "cumprod", "nancumsum", "nancumprod"):
        x = holes(3, 4, 5) if name.startswith("nan") else X
        yield name, lambda x, n=name: getattr(ops, n)(x, axis=1), (x,)
    yield "cumsum of all", ops.cumsum, (X,)
    for order in (None, 1, np.inf, -np.inf, 3, 0):
        yield f"norm {order}", lambda x, o=order: ops.norm(x, ord=o, axis=-1), (X,)
    for kind in ("fro", 1, np.inf, "nuc", 2):
        yield f"norm of matrices {kind}", lambda x, o=kind: ops.norm(x, ord=o, axis=(1, 2)), (X,)
    for order in (2, 1, 3):
        yield f"normalize {order}", lambda x, o=order: ops.normalize(x, axis=1, order=o), (X,)
    yield "trapezoid", lambda x: ops.trapezoid(x, dx=0.5), (X,)
    yield "diff", ops.diff, (X,)
    yield "diff twice", lambda x: ops.diff(x, n=2, axis=1), (X,)
    yield "corrcoef", ops.corrcoef, (real(3, 9),)
    yield "softmax", lambda x: ops.softmax(x, axis=1), (X,)
    yield "log_softmax", lambda x: ops.log_softmax(x, axis=1), (X,)
    yield "sparsemax", ops.sparsemax, (X,)
    yield "glu", ops.glu, (real(3, 6),)


def order() -> Iterator[Row]:
    yield "sort", ops.sort, (X,)
    yield "sort axis 1", lambda x: ops.sort(x, axis=1), (X,)
    yield "argsort", ops.argsort, (X,)
    yield "argsort axis 0", lambda x: ops.argsort(x, axis=0), (X,)
    yield "top_k", lambda x: ops.top_k(x, 3), (X,)
    yield "in_top_k", lambda t, x: ops.in_top_k(t, x, 2), (whole(6, low=0, high=5), real(6, 5))
    yield "argpartition", lambda x: ops.take_along_axis(x, ops.argpartition(x, 2), -1)[..., 2], (whole(3, 4, 5),)
    yield "searchsorted", ops.searchsorted, (np.sort(real(6)), real(9, seed=8))
    yield "digitize", lambda x: ops.digitize(x, np.array([-1.0, 0.0, 0.5], np.float32)), (X,)
    yield "bincount", lambda x: ops.bincount(x, minlength=6), (whole(12, low=0, high=6),)
    weighted = lambda x: ops.bincount(x, weights=positive(12), minlength=6)  # noqa: E731
    yield "bincount weights", weighted, (whole(12, low=0, high=6),)
    yield "isin", lambda x: ops.isin(x, [1, 3, 5]), (whole(3, 5),)
    yield "isin of a tensor", ops.isin, (whole(3, 5), whole(4, seed=8))
    yield "unique", lambda x: ops.unique(x, size=6), (whole(6, low=0, high=4),)
    for name in ("sum", "max", "min", "prod"):
        function = lambda x, n=name: getattr(ops, f"segment_{n}")(x, np.array([0, 0, 1, 2, 2]), 3)  # noqa: E731
        yield f"segment_{name}", function, (real(5, 4),)
    segments = np.array([0, 2, 1, 2, 0], np.int32)
    yield "segment_sum by a tensor", lambda x, i: ops.segment_sum(x, i, 3), (real(5, 4), segments)
    yield "one_hot", lambda x: ops.one_hot(x, 6), (whole(3, 5, low=0, high=6),)
    yield "one_hot axis 1", lambda x: ops.one_hot(x, 6, axis=1), (whole(3, 5, low=0, high=6),)
    yield "multi_hot", lambda x: ops.multi_hot(x, 6), (whole(3, 5, low=0, high=6),)
    yield "unravel_index", lambda x: ops.unravel_index(x, (4, 5)), (whole(6, low=0, high=20),)


def moving() -> Iterator[Row]:
    yield "append", lambda x, y: ops.append(x, y, axis=1), (X, Y)
    yield "append flat", lambda x, y: ops.append(x, y), (X, Y)
    yield "array_split", lambda x: ops.array_split(x, 3, axis=2), (X,)
    yield "broadcast_to", lambda x: ops.broadcast_to(x, (3, 4, 5)), (real(4, 1),)
    yield "concatenate", lambda x, y: ops.concatenate([x, y], axis=1), (X, Y)
    for name in ("diag", "diagflat"):
        yield name, getattr(ops, name), (real(4),)
    yield "diag of a matrix", lambda x: ops.diag(x, k=1), (real(4, 5),)
    yield "diagonal", lambda x: ops.diagonal(x, offset=1, axis1=1, axis2=2), (X,)
    yield "trace", lambda x: ops.trace(x, axis1=1, axis2=2), (X,)
    yield "expand_dims", lambda x: ops.expand_dims(x, 1), (X,)
    yield "squeeze", lambda x: ops.squeeze(x, 1), (real(3, 1, 5),)
    yield "flip", lambda x: ops.flip(x, axis=1), (X,)
    yield "flip all", ops.flip, (X,)
    yield "fliplr", ops.fliplr, (X,)
    yield "flipud", ops.flipud, (X,)
    yield "get_item", lambda x: x[:, 1:3, ::2], (X,)
    yield "get_item None ...", lambda x: x[..., None, -1], (X,)
    for name in ("dstack", "hstack", "vstack", "stack"):
        yield name, lambda x, y, n=name: getattr(ops, n)([x, y]), (X, Y)
    for name, x in (("dsplit", real(3, 4, 6)), ("hsplit", X), ("vsplit", real(4, 5)), ("split", real(4, 5))):
        yield name, lambda x, n=name: getattr(ops, n)(x, 2), (x,)
    yield "split at", lambda x: ops.split(x, [1, 3], axis=1), (X,)
    yield "meshgrid", lambda x, y: ops.meshgrid(x, y), (real(4), real(3))
    yield "meshgrid ij", lambda x, y: ops.meshgrid(x, y, indexing="ij"), (real(4), real(3))
    yield "moveaxis", lambda x: ops.moveaxis(x, 0, 2), (X,)
    for mode in ("constant", "reflect", "symmetric"):
        yield f"pad {mode}", lambda x, m=mode: ops.pad(x, ((0, 0), (1, 1), (1, 0)), mode=m), (X,)
    yield "ravel", ops.ravel, (X,)
    yield "rearrange", lambda x: ops.rearrange(x, "a (b c) d -> b (a d) c", b=2), (X,)
    yield "repeat", lambda x: ops.repeat(x, 2, axis=1), (X,)
    yield "repeat flat", lambda x: ops.repeat(x, 2), (X,)
    yield "repeat differently", lambda x: ops.repeat(x, np.array([1, 2, 0, 3]), axis=1), (X,)
    yield "reshape", lambda x: ops.reshape(x, (4, -1)), (X,)
    yield "roll", lambda x: ops.roll(x, 2, axis=1), (X,)
    yield "roll flat", lambda x: ops.roll(x, 2), (X,)
    yield "rot90", lambda x: ops.rot90(x, k=1, axes=(1, 2)), (X,)
    yield "rot90 three times", lambda x: ops.rot90(x, k=3), (X,)
    yield "swapaxes", lambda x: ops.swapaxes(x, 0, 2), (X,)
    yield "transpose", lambda x: ops.transpose(x, (2, 0, 1)), (X,)
    yield "tile", lambda x: ops.tile(x, (2, 1, 3)), (X,)
    yield "take", lambda x, i: ops.take(x, i, axis=1), (X, whole(2, 3, low=0, high=4))
    yield "take flat", lambda x: ops.take(x, [0, 7, 12]), (X,)
    along = lambda x, i: ops.take_along_axis(x, i, axis=1)  # noqa: E731
    yield "take_along_axis", along, (X, whole(3, 2, 5, low=0, high=4))
    yield "take_along_axis broadcast", along, (X, whole(1, 2, 5, low=0, high=4))
    yield "tril", ops.tril, (X,)
    yield "triu", lambda x: ops.triu(x, k=1), (X,)
    yield "unstack", lambda x: ops.unstack(x, axis=1), (X,)
    yield "slice", lambda x: ops.slice(x, (1, 0, 2), (2, 3, 2)), (X,)
    yield "slice by a tensor", lambda x, i: ops.slice(x, i, (2, 3, 2)), (X, np.array([1, 0, 2], np.int32))
    yield "slice_update", lambda x, y: ops.slice_update(x, (1, 0, 2), y), (X, real(2, 3, 2))
    places = np.array([[0], [2]], np.int32)
    yield "scatter", lambda v: ops.scatter(places, v, (4, 5)), (real(2, 5),)
    yield "scatter by a tensor", lambda i, v: ops.scatter(i, v, (4, 5)), (places, real(2, 5))
    yield "scatter_update", lambda x, v: ops.scatter_update(x, places, v), (real(4, 5), real(2, 5))
    yield "scatter_update by a tensor", ops.scatter_update, (real(4, 5), places, real(2, 5))
    adds = lambda x, v: ops.scatter_update(x, places, v, reduction="add")  # noqa: E731
    yield "scatter_update add", adds, (real(4, 5), real(2, 5))
    yield "space_to_depth", lambda x: ops.space_to_depth(x, 2), (real(2, 4, 6, 3),)
    yield "depth_to_space", lambda x: ops.depth_to_space(x, 2), (real(2, 4, 6, 8),)
    yield "extract_sequences", lambda x: ops.extract_sequences(x, 5, 3), (real(2, 20),)
    yield "unfold", lambda x: ops.unfold(x, 3, padding=1, stride=2), (real(2, 3, 8, 9),)
    yield "fold", lambda x: ops.fold(x, (4, 5), 2), (real(2, 12, 12),)
    yield "vander", lambda x: ops.vander(x, 4), (real(5),)
    for name in ("zeros_like", "ones_like", "empty_like"):
        yield name, lambda x, n=name: x + 0 * getattr(ops, n)(x), (X,)
    yield "full_like", lambda x: ops.full_like(x, 3.0), (X,)
    yield "view_as_complex", lambda x: ops.real(ops.view_as_complex(x)), (real(3, 5, 2),)
    turned = lambda a, b: ops.view_as_real(ops.polar(a, b))  # noqa: E731
    yield "view_as_real", turned, (positive(3, 5), real(3, 5))


def constants() -> Iterator[Row]:
    """Functions that need no tensor make constants."""
    for name, made in {
        "arange": lambda: ops.arange(5), "array": lambda: ops.array([1.0, 2, 3, 4, 5]),
        "bartlett": lambda: ops.bartlett(5), "blackman": lambda: ops.blackman(5), "eye": lambda: ops.eye(4, 5),
        "full": lambda: ops.full((4, 5), 0.5), "geomspace": lambda: ops.geomspace(1.0, 2.0, 5),
        "hamming": lambda: ops.hamming(5), "hanning": lambda: ops.hanning(5), "identity": lambda: ops.identity(5),
        "kaiser": lambda: ops.kaiser(5, 14.0), "linspace": lambda: ops.linspace(0.0, 1.0, 5),
        "logspace": lambda: ops.logspace(0.0, 1.0, 5), "ones": lambda: ops.ones((5,)), "tri": lambda: ops.tri(4, 5),
        "zeros": lambda: ops.zeros((4, 5)),
    }.items():  # fmt: skip
        yield name, lambda x, m=made: x * ops.cast(m(), "float32"), (X if name != "identity" else real(3, 5, 5),)
    yield "linspace between tensors", lambda x, y: ops.linspace(x, y, 5), (X, Y)
    yield "shape", lambda x: ops.reshape(x, (ops.shape(x)[0], -1)), (X,)
    yield "size", lambda x: x / ops.cast(ops.size(x), "float32"), (X,)


def algebra() -> Iterator[Row]:
    a, b = real(2, 3, 4), real(2, 4, 5)
    yield "matmul", ops.matmul, (a, b)
    yield "dot", ops.dot, (real(3, 4), real(4, 5))
    yield "einsum", lambda x, y: ops.einsum("abc,acd->adb", x, y), (a, b)
    yield "einsum of three", lambda x, y, z: ops.einsum("ab,bc,cd->ad", x, y, z), (real(2, 3), real(3, 4), real(4, 5))
    yield "einsum trace", lambda x: ops.einsum("aii->ai", x), (real(2, 4, 4),)
    yield "inner", ops.inner, (real(3, 4), real(5, 4))
    yield "outer", ops.outer, (real(4), real(5))
    yield "kron", ops.kron, (real(2, 3), real(3, 2))
    yield "vdot", ops.vdot, (real(5), real(5, seed=8))
    yield "cross", ops.cross, (real(4, 3), real(4, 3, seed=8))
    yield "tensordot", lambda x, y: ops.tensordot(x, y, axes=[[2], [1]]), (a, b)
    yield "tensordot 2", lambda x, y: ops.tensordot(x, y, axes=2), (real(2, 3, 4), real(3, 4, 5))
    yield "cdist", ops.cdist, (real(2, 5, 3), real(2, 4, 3, seed=8))
    yield "correlate", lambda x, y: ops.correlate(x, y, mode="valid"), (real(9), real(4))
    yield "correlate same", lambda x, y: ops.correlate(x, y, mode="same"), (real(9), real(4))
    for name in ("cholesky", "cholesky_inverse", "det", "inv", "logdet", "slogdet", "pinv"):
        x = definite()
        yield name, getattr(ops, name), (np.linalg.cholesky(x) if name == "cholesky_inverse" else x,)
    yield "solve", ops.solve, (definite(), real(2, 4, 3))
    yield "solve_triangular", lambda a, b: ops.solve_triangular(a, b, lower=True), (
        np.linalg.cholesky(definite()), real(2, 4, 3))  # fmt: skip
    yield "lstsq", ops.lstsq, (real(5, 3), real(5, 2))
    yield "lu_factor", lambda x: ops.lu_factor(x)[0], (definite(),)
    yield "qr", lambda x: ops.abs(ops.qr(x)[1]), (real(2, 4, 3),)
    yield "svd", lambda x: ops.svd(x, compute_uv=False), (real(2, 4, 3),)
    yield "eigh", lambda x: ops.eigh(x)[0], (definite(),)
    yield "eig", lambda x: ops.real(ops.eig(x)[0]), (definite(),)
    yield "matrix_rank", ops.matrix_rank, (definite(),)


def nn() -> Iterator[Row]:
    series, image = real(2, 9, 4), real(2, 8, 9, 4)
    for name, x in (("1", series), ("2", image), ("3", real(2, 5, 6, 7, 4))):
        rank = int(name)
        yield f"average_pool {name}", lambda x: ops.average_pool(x, 2, 2), (x,)
        yield f"max_pool {name}", lambda x: ops.max_pool(x, 3, 2, padding="same"), (x,)
        yield f"adaptive_average_pool {name}", lambda x: ops.adaptive_average_pool(x, (3,) * (len(x.shape) - 2)), (x,)
        yield f"adaptive_max_pool {name}", lambda x: ops.adaptive_max_pool(x, (3,) * (len(x.shape) - 2)), (x,)
        yield f"conv {name}", lambda x, r=rank: ops.conv(x, real(*[3] * r, 4, 6), 2, padding="same"), (x,)
    yield "conv by a tensor", lambda x, w: ops.conv(x, w), (image, real(3, 3, 4, 6))
    yield "depthwise_conv", lambda x: ops.depthwise_conv(x, real(3, 3, 4, 2), padding="same"), (image,)
    separable = lambda x: ops.separable_conv(x, real(3, 3, 4, 2), real(1, 1, 8, 6))  # noqa: E731
    yield "separable_conv", separable, (image,)
    means = lambda x: ops.batch_normalization(x, real(4), positive(4), -1, real(4), real(4))  # noqa: E731
    yield "batch_normalization", means, (image,)
    tensors = lambda x, m, v: ops.batch_normalization(x, m, v, -1)  # noqa: E731
    yield "batch_normalization by tensors", tensors, (image, real(4), positive(4))
    yield "layer_normalization", lambda x: ops.layer_normalization(x, real(4), real(4), epsilon=1e-3), (image,)
    yield "rms_normalization", lambda x: ops.rms_normalization(x, real(4), epsilon=1e-3), (image,)
    q, k = real(2, 5, 3, 4), real(2, 7, 3, 4, seed=8)
    yield "dot_product_attention", lambda q, k, v: ops.dot_product_attention(q, k, v), (q, k, k)
    masked = lambda q, k, m: ops.dot_product_attention(q, k, k, mask=m)  # noqa: E731
    yield "dot_product_attention mask", masked, (q, k, flags(2, 3, 5, 7) | (np.arange(7) == 0))
    yield "dot_product_attention causal", lambda q: ops.dot_product_attention(q, q, q, is_causal=True), (q,)
    p, t = real(4, 5, low=0.05, high=0.95), flags(4, 5).astype(np.float32)
    yield "binary_crossentropy", ops.binary_crossentropy, (t, p)
    yield "binary_crossentropy from_logits", lambda t, p: ops.binary_crossentropy(t, p, from_logits=True), (t, p)
    yield "categorical_crossentropy", ops.categorical_crossentropy, (t, p)
    yield "categorical_crossentropy from_logits", lambda t, p: ops.categorical_crossentropy(t, p, True), (t, p)
    classes = whole(4, low=0, high=5)
    yield "sparse_categorical_crossentropy", ops.sparse_categorical_crossentropy, (classes, p)
    yield "psnr", lambda x, y: ops.psnr(x, y, 1.0), (IMAGES, IMAGES[::-1].copy())
    yield "ctc_loss", lambda t, o: ops.ctc_loss(t, o, np.array([2, 2]), np.array([6, 6])), (
        whole(2, 3, low=1, high=4), real(2, 6, 4))  # fmt: skip
    yield "ctc_decode", lambda o: ops.ctc_decode(o, np.array([6, 6]))[0], (real(2, 6, 4),)


def signals() -> Iterator[Row]:
    x = real(2, 32)
    yield "rfft", ops.rfft, (x,)
    yield "rfft fft_length", lambda x: ops.rfft(x, 20), (x,)
    yield "fft", lambda x, y: ops.fft((x, y)), (x, real(2, 32, seed=8))
    yield "fft2", lambda x, y: ops.fft2((x, y)), (real(2, 6, 8), real(2, 6, 8, seed=8))
    yield "ifft2", lambda x, y: ops.ifft2((x, y)), (real(2, 6, 8), real(2, 6, 8, seed=8))
    yield "irfft", lambda x, y: ops.irfft((x, y)), (real(2, 17), real(2, 17, seed=8))
    yield "stft", lambda x: ops.stft(x, 16, 8, 16), (real(2, 64),)
    yield "stft options", lambda x: ops.stft(x, 12, 5, 16, window="hamming", center=False), (real(2, 64),)
    yield "istft", lambda x, y: ops.istft((x, y), 16, 8, 16), (real(2, 9, 9), real(2, 9, 9, seed=8))


def images() -> Iterator[Row]:
    for mode in ("nearest", "bilinear", "bicubic"):
        yield f"image.resize {mode}", lambda x, m=mode: ops.image.resize(x, (12, 7), interpolation=m), (IMAGES,)
    matrix = np.array([[1.1, 0.1, -0.5, -0.1, 0.9, 0.4, 0, 0], [0.9, 0, 1, 0.2, 1, 0, 0, 0]], np.float32)
    for mode in ("constant", "nearest", "wrap", "mirror", "reflect"):
        turned = lambda x, m=mode: ops.image.affine_transform(x, matrix, fill_mode=m)  # noqa: E731
        yield f"image.affine_transform {mode}", turned, (IMAGES,)
    yield "image.affine_transform by a tensor", ops.image.affine_transform, (IMAGES, matrix)
    corners = np.array([[[0, 0], [8, 0], [0, 7], [8, 7]]] * 2, np.float32)
    moved = corners + np.array([[1, 0], [0, 1], [1, 1], [-1, 0]], np.float32)
    yield "image.perspective_transform", lambda x: ops.image.perspective_transform(x, corners, moved), (IMAGES,)
    at = real(2, 6, low=0, high=7)
    yield "image.map_coordinates", lambda x: ops.image.map_coordinates(x, at, order=1), (real(8, 9),)
    yield "image.map_coordinates nearest", lambda x, c: ops.image.map_coordinates(x, c, order=0), (real(8, 9), at)
    yield "image.crop_images", lambda x: ops.image.crop_images(x, 1, 2, target_height=4, target_width=5), (IMAGES,)
    yield "image.pad_images", lambda x: ops.image.pad_images(x, 1, 2, target_height=12, target_width=13), (IMAGES,)
    yield "image.extract_patches", lambda x: ops.image.extract_patches(x, (3, 2), padding="same"), (IMAGES,)
    patches = lambda x: ops.image.extract_patches_3d(x, 2, strides=1)  # noqa: E731
    yield "image.extract_patches_3d", patches, (real(2, 4, 5, 6, 3),)
    yield "image.gaussian_blur", lambda x: ops.image.gaussian_blur(x), (IMAGES,)
    for name in ("rgb_to_grayscale", "rgb_to_hsv", "hsv_to_rgb", "sobel_edges"):
        yield f"image.{name}", getattr(ops.image, name), (IMAGES,)
    yield "image.ssim", lambda x, y: ops.image.ssim(x, y, filter_size=5), (IMAGES, IMAGES[::-1].copy())
    yield "image.elastic_transform", lambda x: ops.image.elastic_transform(x, alpha=0.0, seed=1), (IMAGES,)
    scaled = lambda x: ops.image.scale_and_translate(  # noqa: E731
        x, (2, 12, 7, 3), np.array([1.4, 0.8], np.float32), np.array([0.5, 0.2], np.float32), (1, 2), "linear"
    )
    yield "image.scale_and_translate", scaled, (IMAGES,)


def control() -> Iterator[Row]:
    switch = lambda x: ops.switch(ops.cast(ops.sum(x) > 0, "int32"), [lambda a: a * 2, lambda a: a - 1], x)  # noqa: E731
    yield "switch", switch, (X,)
    yield "fori_loop", lambda x: ops.fori_loop(0, 3, lambda i, v: v * 1.5, x), (X,)
    loop = lambda x: ops.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 1.5), (np.int32(0), x))[1]  # noqa: E731
    yield "while_loop", loop, (X,)
    yield "map", lambda x: ops.map(lambda v: v * 2 + 1, x), (X,)
    yield "vectorized_map", lambda x: ops.vectorized_map(lambda v: v * 2 + 1, x), (X,)
    summed = lambda x: ops.scan(lambda c, v: (c + v, c * v), ops.zeros((4, 5)), x)  # noqa: E731
    yield "scan", summed, (X,)
    yield "associative_scan", lambda x: ops.associative_scan(lambda a, b: a + b, x), (X,)


FAMILIES = (
    elementwise, binary, reductions, order, moving, constants, algebra, nn, signals, images, control,
)  # fmt: skip


def rows() -> Iterator[Row]:
    for family in FAMILIES:
        yield from family()
