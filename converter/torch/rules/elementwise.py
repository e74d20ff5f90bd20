"""Element-wise functions that torch.onnx lacks."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from twinfer.converter.torch.rewrite import Rule

Number = float | int


def clamp(x: Tensor, min: Number | None = None, max: Number | None = None) -> Tensor:
    """Limits of two kinds, of which torch.onnx finds no form: both become floats."""
    return x.clamp(float(min or 0), float(max or 0))


def _mixed(x: Tensor, min: Any = None, max: Any = None) -> bool:
    return x.is_floating_point() and isinstance(min, int | float) and isinstance(max, int | float) and (
        type(min) is not type(max)
    )  # fmt: skip


def signbit(x: Tensor) -> Tensor:
    """True for -0, too, whose reciprocal is negative."""
    return (x < 0) | (1 / x < 0) if x.is_floating_point() else x < 0


def copysign(x: Tensor, other: Tensor | Number) -> Tensor:
    if not isinstance(other, Tensor):
        return x.abs() * math.copysign(1, other)
    return torch.where(signbit(other), -x.abs(), x.abs())


def larger(x: Tensor, other: Tensor) -> Tensor:
    """The larger of two values, or the one that is no NaN."""
    return torch.where(x.isnan(), other, torch.where(other.isnan(), x, torch.maximum(x, other)))


def smaller(x: Tensor, other: Tensor) -> Tensor:
    return torch.where(x.isnan(), other, torch.where(other.isnan(), x, torch.minimum(x, other)))


def hypot(x: Tensor, other: Tensor) -> Tensor:
    """sqrt(x^2 + y^2) by the larger of both, whose square may be beyond the floats."""
    high, low = torch.maximum(x.abs(), other.abs()), torch.minimum(x.abs(), other.abs())
    ratio = low / high.clamp_min(torch.finfo(x.dtype).tiny)
    return high * (ratio * ratio + 1).sqrt()


def frexp(x: Tensor) -> tuple[Tensor, Tensor]:
    """x as mantissa * 2^exponent, the mantissa from 0.5 to below 1. The logarithm may round to the next exponent."""
    positive = torch.where(x == 0, 1.0, x.abs())
    exponent = positive.log2().floor() + 1
    mantissa = positive * (-exponent).exp2()
    exponent = exponent + (mantissa >= 1).to(x.dtype) - (mantissa < 0.5).to(x.dtype)
    mantissa = x * (-exponent).exp2()
    return mantissa, torch.where(x == 0, 0.0, exponent).int()


def xlog1py(x: Tensor, other: Tensor) -> Tensor:
    """x * log(1 + y), and 0 where x is 0 and y a number."""
    return torch.where((x == 0) & (other == other), 0.0, x * other.log1p())


def leaky(
    x: Tensor, lower: Number = 1 / 8, upper: Number = 1 / 3, training: bool = False, generator: Any = None
) -> Tensor:
    """RReLU of a model that does not learn: its slope is the middle one."""
    return torch.nn.functional.leaky_relu(x, (lower + upper) / 2)


def _is_few(x: Tensor, count: Any) -> bool:
    return isinstance(count, int) and 0 <= count < 31 and not x.is_floating_point()


def shifted_right(x: Tensor, count: int) -> Tensor:
    """Signed integers: rounded down, which ONNX's BitShift does not say of those below 0."""
    return torch.div(x, 2**count, rounding_mode="floor")


RULES = {
    "__rshift__.Scalar": Rule(shifted_right, _is_few),
    "bitwise_right_shift.Tensor_Scalar": Rule(shifted_right, _is_few),
    "clamp": Rule(clamp, _mixed),
    "copysign.Tensor": copysign,
    "copysign.Scalar": copysign,
    "fmax": larger,
    "fmin": smaller,
    "frexp.Tensor": frexp,
    "hypot": hypot,
    "rrelu": Rule(leaky, lambda x, lower=0, upper=0, training=False, generator=None: not training),
    "signbit": signbit,
    "special_xlog1py": xlog1py,
}
