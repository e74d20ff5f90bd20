"""Functions of torch.special: recurrences, series, and polynomials that are fitted to torch's own functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.polynomial import chebyshev
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

#: Bernoulli's numbers of even index, from 2 on, by their factorials: for Euler and Maclaurin's formula.
_BERNOULLI = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600)


def _recurrence(first: Callable[[Tensor], Tensor], step: Callable[[int, Tensor, Tensor, Tensor], Tensor]) -> Any:
    """Polynomials of a degree by P[0] = 1, P[1] = first(x), P[k + 1] = step(k, x, P[k], P[k - 1])."""

    def polynomial(x: Tensor, n: float) -> Tensor:
        before, last = torch.ones_like(x), first(x)
        if n < 0:
            return torch.zeros_like(x)
        for k in range(1, int(n)):
            before, last = last, step(k, x, last, before)
        return before if int(n) == 0 else last

    return polynomial


def _shifted(polynomial: Any) -> Any:
    return lambda x, n: polynomial(2 * x - 1, n)


def _chebyshev_step(k: int, x: Tensor, last: Tensor, before: Tensor) -> Tensor:
    return 2 * x * last - before


_CHEBYSHEV = {
    "t": _recurrence(lambda x: x, _chebyshev_step),
    "u": _recurrence(lambda x: 2 * x, _chebyshev_step),
    "v": _recurrence(lambda x: 2 * x - 1, _chebyshev_step),
    "w": _recurrence(lambda x: 2 * x + 1, _chebyshev_step),
}
_POLYNOMIALS = {
    "hermite_polynomial_h": _recurrence(lambda x: 2 * x, lambda k, x, last, before: 2 * (x * last - k * before)),
    "hermite_polynomial_he": _recurrence(lambda x: x, lambda k, x, last, before: x * last - k * before),
    "laguerre_polynomial_l": _recurrence(
        lambda x: 1 - x, lambda k, x, last, before: ((2 * k + 1 - x) * last - k * before) / (k + 1)
    ),
    "legendre_polynomial_p": _recurrence(
        lambda x: x, lambda k, x, last, before: ((2 * k + 1) * x * last - k * before) / (k + 1)
    ),
}


def lgamma(x: Tensor) -> Tensor:
    """Stirling's series at 7 or above, where smaller numbers are shifted to; below 0.5 by reflection."""
    below = x < 0.5
    y = torch.where(below, 1 - x, x)
    product = y
    for k in range(1, 7):
        product = product * (y + k)
    small = y < 7
    z = torch.where(small, y + 7, y)
    series = (z - 0.5) * z.log() - z + 0.5 * math.log(2 * math.pi) + (1 / 12 - 1 / (360 * z * z)) / z
    result = torch.where(small, series - product.log(), series)
    sine = (math.pi * (x - x.round())).sin().abs()
    return torch.where(below, math.log(math.pi) - sine.log() - result, result)


def digamma(x: Tensor) -> Tensor:
    """The asymptotic series at 6 or above, where all numbers are shifted to; below 0.5 by reflection."""
    below = x < 0.5
    y = torch.where(below, 1 - x, x)
    shifted = 1 / y
    for k in range(1, 6):
        shifted = shifted + 1 / (y + k)
    z = y + 6
    s = 1 / (z * z)
    result = z.log() - 0.5 / z - s * (1 / 12 - s * (1 / 120 - s / 252)) - shifted
    angle = math.pi * (x - x.round())
    return torch.where(below, result - math.pi * angle.cos() / angle.sin(), result)


def zeta(s: Any, q: Tensor) -> Tensor:
    """Hurwitz's zeta function by Euler and Maclaurin's formula: eight terms, then an integral with corrections."""
    total = q**-s
    for k in range(1, 8):
        total = total + (q + k) ** -s
    z = q + 8
    power = z**-s
    total = total + power * z / (s - 1) + power / 2
    term = power * s / z
    for i, number in enumerate(_BERNOULLI):
        total = total + number * term
        term = term * (s + 2 * i + 1) * (s + 2 * i + 2) / (z * z)
    return total


def polygamma(n: int, x: Tensor) -> Tensor:
    if n == 0:
        return digamma(x)
    return (-1) ** (n + 1) * math.factorial(n) * zeta(n + 1, x)


def mvlgamma(x: Tensor, p: int) -> Tensor:
    total = lgamma(x) + p * (p - 1) / 4 * math.log(math.pi)
    for i in range(1, p):
        total = total + lgamma(x - i / 2)
    return total


@cache
def _fitted(name: str, low: float, high: float, degree: int) -> tuple[float, ...]:
    """Coefficients, from the highest power on, of a polynomial over t from -1 to 1, which is low to high."""
    t = np.cos(np.pi * (np.arange(4 * degree) + 0.5) / (4 * degree))
    values = _TARGETS[name](torch.from_numpy((t + 1) / 2 * (high - low) + low)).numpy()
    series = chebyshev.chebfit(t, values, degree)
    return tuple(float(c) for c in chebyshev.cheb2poly(series)[::-1])


def _fit(name: str, x: Tensor, low: float, high: float, degree: int) -> Tensor:
    """The function of that name at x, which is kept within low and high."""
    with _disable_current_modes():
        coefficients = _fitted(name, low, high, degree)
    t = ((x - low) * (2 / (high - low)) - 1).clamp(-1.0, 1.0)
    result = coefficients[0] * t + coefficients[1]
    for c in coefficients[2:]:
        result = result * t + c
    return result


def _by_square_log(w: Tensor) -> Tensor:
    """erfinv(x) / x at w = -log(1 - x^2)."""
    x = (1 - (-w.clamp_min(1e-12)).exp()).sqrt()
    return torch.special.erfinv(x) / x


def _inverse_of_erf(x: Tensor, w: Tensor) -> Tensor:
    """At x with w = -log(1 - x^2)."""
    centre = _fit("erfinv", w, 0, 6, 12)
    tail = _fit("erfinv of root", w.clamp_min(1e-6).sqrt(), math.sqrt(6), 4.2, 8)
    return x * torch.where(w < 6, centre, tail)


def erfinv(x: Tensor) -> Tensor:
    result = _inverse_of_erf(x, -((1 - x).log() + (1 + x).log()))
    return torch.where(x.abs() == 1, x / (1 - x.abs()), result)


def ndtri(p: Tensor) -> Tensor:
    x = 2 * p - 1
    result = math.sqrt(2) * _inverse_of_erf(x, -((2 * p).log() + (2 - 2 * p).log()))
    return torch.where(x.abs() == 1, x / (1 - x.abs()), result)


#: What polynomials are fitted to, in double precision: torch's functions without what makes them no polynomials.
_TARGETS: dict[str, Callable[[Tensor], Tensor]] = {
    "erfinv": _by_square_log,
    "erfinv of root": lambda v: _by_square_log(v * v),
    "i0": torch.special.i0e,
    "i0 far": lambda r: torch.special.i0e(8 / r) * (8 / r).sqrt(),
    "i1": lambda x: torch.special.i1e(x) / x,
    "i1 far": lambda r: torch.special.i1e(8 / r) * (8 / r).sqrt(),
    "k0": lambda x: torch.special.modified_bessel_k0(x) + (x / 2).log() * torch.special.i0(x),
    "k0 far": lambda r: torch.special.scaled_modified_bessel_k0(2 / r) * (2 / r).sqrt(),
    "k1": lambda x: (torch.special.modified_bessel_k1(x) - (x / 2).log() * torch.special.i1(x)) * x,
    "k1 far": lambda r: torch.special.scaled_modified_bessel_k1(2 / r) * (2 / r).sqrt(),
    "j0": lambda s: torch.special.bessel_j0(s.sqrt()),
    "j1": lambda s: torch.special.bessel_j1(s.clamp_min(1e-12).sqrt()) / s.clamp_min(1e-12).sqrt(),
}


def _i0e(x: Tensor) -> Tensor:
    a = x.abs()
    far = a.clamp_min(8.0)
    return torch.where(a < 8, _fit("i0", a, 0, 8, 14), _fit("i0 far", 8 / far, 1e-3, 1, 6) / far.sqrt())


def _i1e(x: Tensor) -> Tensor:
    a = x.abs()
    far = a.clamp_min(8.0)
    near = x * _fit("i1", a, 1e-9, 8, 14)
    return torch.where(a < 8, near, x.sign() * _fit("i1 far", 8 / far, 1e-3, 1, 6) / far.sqrt())


def i0(x: Tensor) -> Tensor:
    return _i0e(x) * x.abs().exp()


def i1(x: Tensor) -> Tensor:
    return _i1e(x) * x.abs().exp()


def _scaled_k(order: int) -> Any:
    """exp(x) times the modified Bessel function of the second kind, of positive numbers."""

    def scaled(x: Tensor) -> Tensor:
        near, far = x.clamp_max(2.0), x.clamp_min(2.0)
        log = (near / 2).log()
        if order == 0:
            small = _fit("k0", near, 1e-9, 2, 10) - log * i0(near)
        else:
            small = _fit("k1", near, 1e-9, 2, 10) / near + log * i1(near)
        return torch.where(x < 2, small * near.exp(), _fit(f"k{order} far", 2 / far, 1e-3, 1, 8) / far.sqrt())

    return scaled


def _waves(order: int, second: bool) -> Any:
    """Bessel functions of the first or second kind: near 0 by polynomials of x^2, from 6 on as waves, whose amplitudes
    are polynomials of 1 / x."""

    def bessel(x: Tensor) -> Tensor:
        a = x.abs()
        near, far = a.clamp_max(6.0), a.clamp_min(6.0)
        small = _fit(f"j{order}", near * near, 0, 36, 10) * (near if order else 1.0)
        if second:
            log = (near / 2).log() * (2 / math.pi)
            rest = _fit(f"y{order}", near * near, 1e-9, 36, 10)
            small = log * small + (rest if order == 0 else rest * near - 2 / (math.pi * near))
        angle = far - math.pi * (0.25 + order / 2)
        even, odd = (_fit(f"{kind}{order}", 6 / far, 1e-3, 1, 7) for kind in ("even", "odd"))
        sine, cosine = angle.sin(), angle.cos()
        wave = even * sine + odd * cosine if second else even * cosine - odd * sine
        result = torch.where(a < 6, small, (2 / (math.pi * far)).sqrt() * wave)
        return x.sign() * result if order and not second else result

    return bessel


def _amplitude(order: int, odd: bool) -> Callable[[Tensor], Tensor]:
    """What multiplies the waves of both kinds at x = 6 / r."""
    j, y = (getattr(torch.special, f"bessel_{kind}{order}") for kind in "jy")

    def amplitude(r: Tensor) -> Tensor:
        x = 6 / r
        angle = x - math.pi * (0.25 + order / 2)
        wave = y(x) * angle.cos() - j(x) * angle.sin() if odd else j(x) * angle.cos() + y(x) * angle.sin()
        return wave * (math.pi * x / 2).sqrt()

    return amplitude


def _rest_of_second(order: int) -> Callable[[Tensor], Tensor]:
    """The Bessel function of the second kind at x = sqrt(s) without its logarithm and its pole."""

    def rest(s: Tensor) -> Tensor:
        x = s.sqrt()
        j, y = (getattr(torch.special, f"bessel_{kind}{order}")(x) for kind in "jy")
        value = y - (x / 2).log() * (2 / math.pi) * j
        return (value + 2 / (math.pi * x)) / x if order else value

    return rest


def spherical_bessel_j0(x: Tensor) -> Tensor:
    return torch.where(x == 0, 1.0, x.sin() / torch.where(x == 0, 1.0, x))


_TARGETS |= {f"y{order}": _rest_of_second(order) for order in (0, 1)}
_TARGETS |= {f"even{order}": _amplitude(order, False) for order in (0, 1)}
_TARGETS |= {f"odd{order}": _amplitude(order, True) for order in (0, 1)}

RULES: dict[str, Any] = {
    "digamma": digamma,
    "erfinv": erfinv,
    "i0": i0,
    "lgamma": lgamma,
    "mvlgamma": mvlgamma,
    "polygamma": polygamma,
    "special_digamma": digamma,
    "special_erfinv": erfinv,
    "special_gammaln": lgamma,
    "special_i0": i0,
    "special_i0e": _i0e,
    "special_i1": i1,
    "special_i1e": _i1e,
    "special_modified_bessel_i0": i0,
    "special_modified_bessel_i1": i1,
    "special_modified_bessel_k0": lambda x: _scaled_k(0)(x) * (-x).exp(),
    "special_modified_bessel_k1": lambda x: _scaled_k(1)(x) * (-x).exp(),
    "special_multigammaln": mvlgamma,
    "special_ndtri": ndtri,
    "special_polygamma": polygamma,
    "special_psi": digamma,
    "special_scaled_modified_bessel_k0": _scaled_k(0),
    "special_scaled_modified_bessel_k1": _scaled_k(1),
    "special_spherical_bessel_j0": spherical_bessel_j0,
    "special_zeta": zeta,
}
RULES |= {f"special_{name}.n_scalar": polynomial for name, polynomial in _POLYNOMIALS.items()}
RULES |= {f"special_chebyshev_polynomial_{kind}.n_scalar": each for kind, each in _CHEBYSHEV.items()}
RULES |= {f"special_shifted_chebyshev_polynomial_{kind}.n_scalar": _shifted(each) for kind, each in _CHEBYSHEV.items()}
RULES |= {f"special_bessel_{kind}{order}": _waves(order, kind == "y") for kind in "jy" for order in (0, 1)}
