"""The FFT of SignalRfft and SignalIrfft: kissfft's order of operations and its rounding, in numpy and as params.

Source: kissfft v130, which TFLM builds with FIXED_POINT 16 and 32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from twinfer.runtime.graph import DTYPES, Array, Node
from twinfer.runtime.op import need, need_type, unsupported
from twinfer.runtime.ops.signal._custom import whole
from twinfer.runtime.params import Param

#: Type -> suffix of its kernels, and its number in the format, which the option "T" holds.
TYPES = {"INT16": ("s16", 7), "INT32": ("s32", 2), "FLOAT32": ("f32", 0)}

#: The longest transform, and the most stages, which kernels_c/signal/fft.h has room for.
LONGEST, STAGES = 1 << 20, 20

#: Stages that there is code for. TFLM's build of kissfft crashes at others: it takes memory for them from nowhere.
RADICES = {2, 3, 4, 5}

#: Real and imaginary parts, of one shape. Integers are int64 that hold values of the type.
Complex = tuple[Any, Any]


def fft_length(node: Node) -> int:
    """The option; ModelError unless it is even, UnsupportedOperatorError for a factor that TFLM has no memory for."""
    length = whole(node, "fft_length", 4, LONGEST)
    need(length % 2 == 0, node, f"fft_length is {length}, it must be even")
    odd = sorted({*factors(length // 2)} - RADICES)
    if odd:
        raise unsupported(node, f"half of fft_length {length} must have no factors but 2, 3 and 5, it has {odd[0]}")
    return length


def check(node: Node) -> None:
    """The checks that both operators share; ModelError or UnsupportedOperatorError."""
    need(len(node.inputs) == 1 and len(node.outputs) == 1, node, "it must have one input and one output")
    x = node.input(0)
    need_type(node, x, *TYPES)
    need(node.output.type == x.type, node, f"{x} and {node.output} must have one type")
    kind = whole(node, "T")
    need(kind == TYPES[x.type][1], node, f"option 'T' is {kind}, of {x} it must be {TYPES[x.type][1]}")
    need(len(x.shape) >= 1 and x.size > 0, node, f"{x} must have values")


def factors(n: int) -> Iterator[int]:
    """The radices of the stages: fours, then primes."""
    p = 4
    root = math.isqrt(n)
    while True:
        while n % p:
            p = {4: 2, 2: 3}.get(p, p + 2)
            if p > root:
                p = n
        n //= p
        yield p
        if n <= 1:
            return


def layout(n: int, inverse: bool) -> dict[str, Param]:
    """``tw_fft`` for n complex values."""
    radix = list(factors(n))
    stride = [math.prod(radix[:s]) for s in range(len(radix))]
    rest = [n // (a * b) for a, b in zip(radix, stride, strict=True)]
    filled = [[*row, *[0] * (STAGES - len(row))] for row in (radix, rest, stride)]
    head: dict[str, Param] = {"n": n, "inverse": int(inverse), "odd": int(not {*radix} <= {2, 4}), "stages": len(radix)}
    return head | dict(zip(("radix", "rest", "stride"), filled, strict=True))


def _circle(phases: list[float], type: str) -> Array:
    """cos and sin of the phases as fractions of the type, [n, 2]; each is the C library's, rounded once."""
    values = [[math.cos(phase), math.sin(phase)] for phase in phases]
    if type == "FLOAT32":
        return np.array(values, np.float32).reshape(-1, 2)
    most = np.iinfo(DTYPES[type]).max
    return np.array([[math.floor(0.5 + most * v) for v in row] for row in values], DTYPES[type]).reshape(-1, 2)


def twiddles(n: int, inverse: bool, type: str) -> tuple[Array, Array]:
    """The constants of the FFT, [n, 2], and of the step between it and real values, [n / 2, 2]."""
    sign = -1 if inverse else 1
    stages = [sign * (-2 * math.pi * i / n) for i in range(n)]
    halves = [sign * (-math.pi * ((i + 1) / n + 0.5)) for i in range(n // 2)]
    return _circle(stages, type), _circle(halves, type)


class Arithmetic(NamedTuple):
    """kissfft's arithmetic of one type, on arrays."""

    type: str

    @property
    def real(self) -> bool:
        return self.type == "FLOAT32"

    def wrap(self, x: Any) -> Any:
        """As the type stores it; sums of integers wrap."""
        return x if self.real else np.asarray(x).astype(DTYPES[self.type]).astype(np.int64)

    def wide(self, x: Array) -> Any:
        return x if self.real else x.astype(np.int64)

    def rounded(self, product: Any) -> Any:
        if self.real:
            return product
        bits = 15 if self.type == "INT16" else 31
        return self.wrap((product + (1 << (bits - 1))) >> bits)

    def half(self, x: Any) -> Any:
        return x * np.float32(0.5) if self.real else x >> 1

    def divided(self, a: Complex, k: int) -> Complex:
        if self.real:
            return a
        share = int(np.iinfo(DTYPES[self.type]).max) // k
        return self.rounded(a[0] * share), self.rounded(a[1] * share)

    def add(self, a: Complex, b: Complex) -> Complex:
        return self.wrap(a[0] + b[0]), self.wrap(a[1] + b[1])

    def sub(self, a: Complex, b: Complex) -> Complex:
        return self.wrap(a[0] - b[0]), self.wrap(a[1] - b[1])

    def mul(self, a: Complex, b: Complex) -> Complex:
        return self.rounded(a[0] * b[0] - a[1] * b[1]), self.rounded(a[0] * b[1] + a[1] * b[0])

    def scaled(self, a: Complex, by: Any) -> Complex:
        return self.rounded(a[0] * by), self.rounded(a[1] * by)

    def turned(self, a: Complex, b: Complex) -> tuple[Complex, Complex]:
        """a - ib and a + ib."""
        turn = (b[1], -b[0])
        return self.add(a, turn), self.sub(a, turn)


def transform(z: Complex, w: Complex, inverse: bool, ops: Arithmetic) -> Complex:
    """The FFT of z, two arrays [..., n]; w are the twiddles [n], of which shorter transforms take every few."""
    n = z[0].shape[-1]
    radix = next(factors(n))
    m, step = n // radix, w[0].size // n
    parts = [_part(z, q, radix) for q in range(radix)]
    if m > 1:
        parts = [transform(part, w, inverse, ops) for part in parts]
    parts = [ops.divided(part, radix) for part in parts]
    done = _joined(parts, w, step, inverse, ops)
    return np.concatenate([r for r, _ in done], -1), np.concatenate([i for _, i in done], -1)


def _part(z: Complex, first: int, step: int) -> Complex:
    return z[0][..., first::step], z[1][..., first::step]


def _joined(parts: list[Complex], w: Complex, step: int, inverse: bool, ops: Arithmetic) -> list[Complex]:
    """The butterflies of one stage."""
    radix, m = len(parts), parts[0][0].shape[-1]
    places = np.arange(m) * step
    a, *rest = parts
    turned = [ops.mul(part, (w[0][q * places], w[1][q * places])) for q, part in enumerate(rest, 1)]
    if radix == 2:
        return [ops.add(a, turned[0]), ops.sub(a, turned[0])]
    if radix == 3:
        return _three(a, turned, w[1][step * m], ops)
    if radix == 4:
        return _four(a, turned, inverse, ops)
    return _five(a, turned, [(w[0][q * step * m], w[1][q * step * m]) for q in (1, 2)], ops)


def _three(a: Complex, turned: list[Complex], third: Any, ops: Arithmetic) -> list[Complex]:
    b, c = turned
    both, apart = ops.add(b, c), ops.scaled(ops.sub(b, c), third)
    last, first = ops.turned(ops.sub(a, (ops.half(both[0]), ops.half(both[1]))), apart)
    return [ops.add(a, both), first, last]


def _four(a: Complex, turned: list[Complex], inverse: bool, ops: Arithmetic) -> list[Complex]:
    b, c, d = turned
    even, odd = ops.add(a, c), ops.add(b, d)
    first, third = ops.turned(ops.sub(a, c), ops.sub(b, d))
    if inverse:
        first, third = third, first
    return [ops.add(even, odd), first, ops.sub(even, odd), third]


def _five(a: Complex, turned: list[Complex], at: list[Complex], ops: Arithmetic) -> list[Complex]:
    b, c, d, e = turned
    (once_r, once_i), (twice_r, twice_i) = at
    outer, out, inner, into = ops.add(b, e), ops.sub(b, e), ops.add(c, d), ops.sub(c, d)
    near = ops.add(ops.add(a, ops.scaled(outer, once_r)), ops.scaled(inner, twice_r))
    far = ops.add(ops.add(a, ops.scaled(outer, twice_r)), ops.scaled(inner, once_r))
    fourth, first = ops.turned(near, ops.add(ops.scaled(out, once_i), ops.scaled(into, twice_i)))
    third, second = ops.turned(far, ops.sub(ops.scaled(out, twice_i), ops.scaled(into, once_i)))
    return [ops.add(a, ops.add(outer, inner)), first, second, third, fourth]
