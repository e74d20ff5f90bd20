"""Elementary functions of floats that TFLite has no operator for, by those it has. Errors are a few units in the last
place, those of ``erf`` below 3e-7."""

from __future__ import annotations

import math

import numpy as np

from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.emit.functions import number
from twinfer.runtime.graph import Tensor

_LN2 = number(math.log(2))

#: erf(x) = tanh(x * P(x²)), where P is a polynomial. These are its coefficients, least squares of the error from 0 to 4
#: with growing weights where it is largest: at most 6e-8.
_ERF = (1.12837971, 1.02765481e-1, -1.84383331e-4, -6.25719915e-4, 8.97127258e-5, -5.98571480e-6, 1.58961680e-7)

#: Beyond it asinh(x) is log(2 * x).
_FAR = 2.0**60


def erf(g: Emitter, x: Tensor) -> Tensor:
    square = g.binary("MINIMUM", g.binary("MUL", x, x), number(16))
    y = g.binary("ADD", g.binary("MUL", square, number(_ERF[-1])), number(_ERF[-2]))
    for coefficient in _ERF[-3::-1]:
        y = g.binary("ADD", g.binary("MUL", y, square), number(coefficient))
    return g.unary("TANH", g.binary("MUL", y, x))


def cosh(g: Emitter, x: Tensor) -> Tensor:
    """exp(x - log 2) + exp(-x - log 2), which overflows where cosh does."""
    return g.binary(
        "ADD", g.unary("EXP", g.binary("SUB", x, _LN2)), g.unary("EXP", g.binary("SUB", number(-math.log(2)), x))
    )


def sinh(g: Emitter, x: Tensor) -> Tensor:
    """tanh(x) * cosh(x): no difference of numbers that are nearly equal."""
    return g.binary("MUL", g.unary("TANH", x), cosh(g, x))


def tan(g: Emitter, x: Tensor) -> Tensor:
    return g.binary("DIV", g.unary("SIN", x), g.unary("COS", x))


def atan(g: Emitter, x: Tensor) -> Tensor:
    """The angle of (1, x). ATAN2 does not broadcast, so the ones are computed."""
    ones = g.cast(g.binary("EQUAL", x, x, type="BOOL"), "FLOAT32")
    return g.binary("ATAN2", x, ones)


def asin(g: Emitter, x: Tensor) -> Tensor:
    return g.binary("ATAN2", x, _other_leg(g, x))


def acos(g: Emitter, x: Tensor) -> Tensor:
    return g.binary("ATAN2", _other_leg(g, x), x)


def _other_leg(g: Emitter, x: Tensor) -> Tensor:
    """sqrt(1 - x²), accurate near 1 and -1; NaN beyond."""
    return g.unary("SQRT", g.binary("MUL", g.binary("SUB", number(1), x), g.binary("ADD", x, number(1))))


def log1p(g: Emitter, x: Tensor) -> Tensor:
    """log(1 + x), accurate near 0: what 1 + x lost of x is added, divided by 1 + x."""
    one_more = g.binary("ADD", x, number(1))
    lost = g.binary("SUB", x, g.binary("SUB", one_more, number(1)))
    return g.binary("ADD", g.unary("LOG", one_more), g.binary("DIV", lost, one_more))


def asinh(g: Emitter, x: Tensor) -> Tensor:
    """log(a + sqrt(a² + 1)) of the magnitude a; far out with a fixed, and the logarithm of the rest added."""
    magnitude = g.unary("ABS", x)
    a = g.binary("MINIMUM", magnitude, number(_FAR))
    root = g.unary("SQRT", g.binary("ADD", g.binary("MUL", a, a), number(1)))
    tail = g.binary("MUL", a, g.binary("DIV", a, g.binary("ADD", root, number(1))))
    near = log1p(g, g.binary("ADD", a, tail))
    far = g.unary("LOG", g.binary("MAXIMUM", g.binary("MUL", magnitude, number(1 / _FAR)), number(1)))
    return g.binary("MUL", g.unary("SIGN", x), g.binary("ADD", near, far))


def acosh(g: Emitter, x: Tensor) -> Tensor:
    """asinh(sqrt(x - 1) * sqrt(x + 1)); NaN below 1."""
    below, above = (g.unary("SQRT", g.binary(op, x, number(1))) for op in ("SUB", "ADD"))
    return asinh(g, g.binary("MUL", below, above))


def atanh(g: Emitter, x: Tensor) -> Tensor:
    """asinh(x / sqrt(1 - x²)); infinite at 1 and -1."""
    return asinh(g, g.binary("DIV", x, _other_leg(g, x)))


def is_infinite(g: Emitter, x: Tensor, positive: bool, negative: bool) -> Tensor:
    most = float(np.finfo(np.float32).max)
    if positive and negative:
        return g.binary("GREATER", g.unary("ABS", x), number(most), type="BOOL")
    if positive or negative:
        return g.binary("GREATER" if positive else "LESS", x, number(most if positive else -most), type="BOOL")
    return g.binary("GREATER", x, x, type="BOOL")  # never
