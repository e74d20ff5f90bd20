"""Functions of single values, and of pairs, that are made of others of ``keras.ops``."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np

from twinfer.converter.keras.call import composed
from twinfer.runtime.errors import UnsupportedOperatorError

ops = keras.ops


def _float(x: Any) -> Any:
    return x if keras.backend.is_float_dtype(x.dtype) else ops.cast(x, "float32")


def _integer(x: Any) -> bool:
    return "int" in keras.backend.standardize_dtype(x.dtype)


def number(x: Any) -> bool:
    """Where x is not NaN."""
    return ops.equal(x, x)  # type: ignore[no-any-return]


def sparse_plus(own: Any, x: Any) -> Any:
    """0 below -1, x above 1, and a parabola between."""
    return ops.where(x >= 1, x, ops.square(ops.maximum(x + 1, 0.0)) * 0.25)


def bessel(own: Any, x: Any) -> Any:
    """Modified Bessel function of order 0. Source: Abramowitz and Stegun, 9.8.1 and 9.8.2."""
    size = ops.abs(x)
    near, far = ops.square(ops.minimum(size, 3.75) / 3.75), 3.75 / ops.maximum(size, 3.75)
    small = _polynomial(near, 1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.0360768, 0.0045813)
    large = _polynomial(
        far, 0.39894228, 0.01328592, 0.00225319, -0.00157565, 0.00916281, -0.02057706, 0.02635537, -0.01647633,
        0.00392377,
    )  # fmt: skip
    return ops.where(size <= 3.75, small, large * ops.exp(size) / ops.sqrt(ops.maximum(size, 3.75)))


def _polynomial(x: Any, *factors: float) -> Any:
    """factors[0] + factors[1] * x + …"""
    y = factors[-1]
    for factor in factors[-2::-1]:
        y = y * x + factor
    return y


def erfinv(own: Any, x: Any) -> Any:
    """Source: M. Giles, Approximating the erfinv function, 2010, in single precision."""
    w = -ops.log((1 - x) * (1 + x))
    near, far = w - 2.5, ops.sqrt(ops.maximum(w, 5.0)) - 3.0
    small = _polynomial(
        near, 1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06, -3.5233877e-06,
        3.43273939e-07, 2.81022636e-08,
    )  # fmt: skip
    large = _polynomial(
        far, 2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844, 0.00134934322,
        0.000100950558, -0.000200214257,
    )  # fmt: skip
    return ops.where(w < 5, small, large) * x


def nan_to_num(own: Any, x: Any) -> Any:
    largest = float(np.finfo(np.float32).max)
    high, low = (largest if own.posinf is None else own.posinf), (-largest if own.neginf is None else own.neginf)
    y = ops.where(number(x), x, own.nan)
    y = ops.where(ops.equal(y, np.float32(np.inf)), np.float32(high), y)
    return ops.where(ops.equal(y, np.float32(-np.inf)), np.float32(low), y)


def saturate_cast(own: Any, x: Any) -> Any:
    kind = keras.backend.standardize_dtype(own.dtype)
    if "int" not in kind:
        return ops.cast(x, kind)
    limits = np.iinfo(kind)
    return ops.cast(ops.clip(x, limits.min, limits.max), kind)


def heaviside(own: Any, x: Any, middle: Any) -> Any:
    return ops.where(ops.equal(x, 0), middle, ops.cast(x > 0, "float32"))


def isclose(own: Any, a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8) -> Any:
    a, b = _float(ops.convert_to_tensor(a)), _float(ops.convert_to_tensor(b))
    near = ops.logical_or(ops.abs(a - b) <= ops.abs(b) * np.float32(rtol) + np.float32(atol), ops.equal(a, b))
    if not own.equal_nan:
        return near
    return ops.logical_or(near, ops.logical_not(ops.logical_or(number(a), number(b))))


def allclose(own: Any, a: Any, b: Any) -> Any:
    return ops.all(ops.isclose(a, b, own.rtol, own.atol, own.equal_nan))


def addexp(own: Any, a: Any, b: Any) -> Any:
    """log(exp(a) + exp(b))."""
    return ops.maximum(a, b) + ops.log(ops.exp(-ops.abs(a - b)) + 1.0)


def addexp2(own: Any, a: Any, b: Any) -> Any:
    return ops.maximum(a, b) + ops.log(ops.exp(ops.abs(a - b) * -math.log(2)) + 1.0) * (1 / math.log(2))


def divide_no_nan(own: Any, a: Any, b: Any) -> Any:
    zero = ops.equal(b, 0)
    return ops.where(zero, 0.0, a / ops.where(zero, 1.0, b))


def fmax(own: Any, a: Any, b: Any) -> Any:
    return ops.where(number(a), ops.where(number(b), ops.maximum(a, b), a), b)


def fmin(own: Any, a: Any, b: Any) -> Any:
    return ops.where(number(a), ops.where(number(b), ops.minimum(a, b), a), b)


def select(own: Any, conditions: Any, choices: Any, default: Any = 0) -> Any:
    y = default
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        y = ops.where(condition, choice, y)
    return y


def ldexp(own: Any, a: Any, b: Any) -> Any:
    return a * ops.exp(ops.cast(b, "float32") * math.log(2))


def logical_xor(own: Any, a: Any, b: Any) -> Any:
    return ops.not_equal(ops.cast(a, "bool"), ops.cast(b, "bool"))


def _complex(own: Any, *args: Any) -> Any:
    raise UnsupportedOperatorError("complex numbers; keep the real and the imaginary part as two tensors")


IMPORTERS = {
    f"ops.{name}": composed(function)
    for name, function in {
        "AllClose": allclose,
        "Angle": lambda own, x: ops.where(x < 0, np.float32(math.pi), np.float32(0)),
        "Cbrt": lambda own, x: ops.sign(x) * ops.power(ops.abs(_float(x)), 1 / 3),
        "Conj": lambda own, x: x,
        "Conjugate": lambda own, x: x,
        "Deg2rad": lambda own, x: _float(x) * (math.pi / 180),
        "DivideNoNan": divide_no_nan,
        "Erfc": lambda own, x: 1.0 - ops.erf(x),
        "Erfinv": erfinv,
        "Exp2": lambda own, x: ops.exp(_float(x) * math.log(2)),
        "Expm1": lambda own, x: ops.exp(_float(x)) - 1.0,
        "Fabs": lambda own, x: ops.abs(_float(x)),
        "Fmax": fmax,
        "Fmin": fmin,
        "Glu": lambda own, x: (lambda a, b: a * ops.sigmoid(b))(*ops.split(x, 2, axis=own.axis)),
        "HardShrink": lambda own, x: ops.where(ops.abs(x) > own.threshold, x, 0.0),
        "Heaviside": heaviside,
        "Hypot": lambda own, a, b: ops.sqrt(ops.square(_float(a)) + ops.square(_float(b))),
        "I0": bessel,
        "Isclose": isclose,
        "Isfinite": lambda own, x: number(x * 0.0),
        "Isinf": lambda own, x: ops.equal(ops.abs(x), np.float32(np.inf)),
        "Isnan": lambda own, x: ops.not_equal(x, x),
        "Isneginf": lambda own, x: ops.equal(x, np.float32(-np.inf)),
        "Isposinf": lambda own, x: ops.equal(x, np.float32(np.inf)),
        "Isreal": lambda own, x: np.ones(x.shape, np.bool_),
        "Ldexp": ldexp,
        "Log10": lambda own, x: ops.log(_float(x)) * (1 / math.log(10)),
        "Log2": lambda own, x: ops.log(_float(x)) * (1 / math.log(2)),
        "Logaddexp": addexp,
        "Logaddexp2": addexp2,
        "LogicalXor": logical_xor,
        "NanToNum": nan_to_num,
        "Rad2deg": lambda own, x: _float(x) * (180 / math.pi),
        "Real": lambda own, x: x,
        "Polar": _complex,
        "ViewAsComplex": _complex,
        "Reciprocal": lambda own, x: 1.0 / x,
        "SaturateCast": saturate_cast,
        "Select": select,
        "Signbit": lambda own, x: x < 0,
        "Sinc": lambda own, x: ops.where(ops.equal(x, 0.0), 1.0, ops.sin(x * math.pi) / (x * math.pi)),
        "SoftShrink": lambda own, x: x - ops.clip(x, -own.threshold, own.threshold),
        "SparsePlus": sparse_plus,
        "SparseSigmoid": lambda own, x: ops.clip(x * 0.5 + 0.5, 0.0, 1.0),
        "Squareplus": lambda own, x: (x + ops.sqrt(ops.square(x) + own.b)) * 0.5,
        "Threshold": lambda own, x: ops.where(x > own.threshold, x, own.default_value),
        "Trunc": lambda own, x: x if _integer(x) else ops.sign(x) * ops.floor(ops.abs(x)),
    }.items()
}
