"""SignalRfft and SignalIrfft: real values to the half of their spectrum that tells the other, and back.

A spectrum's last dimension holds real and imaginary parts in turn. Source: TFLM signal/micro/kernels/rfft.cc, irfft.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from twinfer.runtime.constant import table
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.op import Case, Op, Shape, need, tensor
from twinfer.runtime.ops.signal import _fft
from twinfer.runtime.ops.signal._custom import custom
from twinfer.runtime.ops.signal._fft import TYPES, Arithmetic, Complex, fft_length, layout, transform, twiddles
from twinfer.runtime.params import Param
from twinfer.runtime.program import Call
from twinfer.runtime.target import Target


def infer(node: Node) -> list[Shape]:
    _fft.check(node)
    x, length = node.input(0), fft_length(node)
    need(x.shape[-1] <= length, node, f"the rows of {x} are longer than fft_length {length}")
    return [(*x.shape[:-1], length + 2)]


def infer_inverse(node: Node) -> list[Shape]:
    _fft.check(node)
    x, length = node.input(0), fft_length(node)
    need(x.shape[-1] == length + 2, node, f"the rows of {x} must have fft_length {length} + 2 values")
    return [(*x.shape[:-1], length)]


def _constants(node: Node, inverse: bool) -> tuple[Complex, Complex, Arithmetic]:
    ops = Arithmetic(node.input(0).type)
    wide = [ops.wide(w) for w in twiddles(fft_length(node) // 2, inverse, ops.type)]
    stages, halves = ((w[:, 0], w[:, 1]) for w in wide)
    return stages, halves, ops


def reference(node: Node, inputs: list[Any]) -> list[Array]:
    """Pairs of neighbours are complex numbers to the FFT; its result is then taken apart."""
    (x,), length = inputs, fft_length(node)
    stages, halves, ops = _constants(node, False)
    x = ops.wide(np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, length - x.shape[-1])]))
    z = transform((x[..., ::2], x[..., 1::2]), stages, False, ops)
    n = length // 2
    y = np.zeros((*x.shape[:-1], n + 1, 2), x.dtype)
    zero_r, zero_i = ops.divided((z[0][..., 0], z[1][..., 0]), 2)
    y[..., 0, 0], y[..., n, 0] = zero_r + zero_i, zero_r - zero_i
    k = np.arange(1, n // 2 + 1)
    mirror = (z[0][..., n - k], ops.wrap(-z[1][..., n - k]))
    a, b = ops.divided((z[0][..., k], z[1][..., k]), 2), ops.divided(mirror, 2)
    (even_r, even_i), odd = ops.add(a, b), ops.sub(a, b)
    odd_r, odd_i = ops.mul(odd, halves)
    y[..., k, 0], y[..., k, 1] = _half(ops, even_r + odd_r), _half(ops, even_i + odd_i)
    y[..., n - k, 0], y[..., n - k, 1] = _half(ops, even_r - odd_r), _half(ops, odd_i - even_i)
    return [y.reshape(node.output.shape).astype(node.output.dtype)]


def _half(ops: Arithmetic, x: Any) -> Any:
    """Half of a sum, which is an int in C: only those of INT32 wrap first."""
    return ops.half(x if ops.type == "INT16" else ops.wrap(x))


def reference_inverse(node: Node, inputs: list[Any]) -> list[Array]:
    length = fft_length(node)
    stages, halves, ops = _constants(node, True)
    x = ops.wide(inputs[0]).reshape(*inputs[0].shape[:-1], -1, 2)
    r, i, n = x[..., 0], x[..., 1], length // 2
    z = np.zeros((2, *r.shape[:-1], n), x.dtype)
    z[:, ..., 0] = ops.divided((ops.wrap(r[..., 0] + r[..., n]), ops.wrap(r[..., 0] - r[..., n])), 2)
    k = np.arange(1, n // 2 + 1)
    a, b = ops.divided((r[..., k], i[..., k]), 2), ops.divided((r[..., n - k], ops.wrap(-i[..., n - k])), 2)
    even, odd = ops.add(a, b), ops.mul(ops.sub(a, b), halves)
    last_r, last_i = ops.sub(even, odd)
    z[:, ..., k] = ops.add(even, odd)
    z[:, ..., n - k] = last_r, ops.wrap(-last_i)
    y = np.stack(transform((z[0], z[1]), stages, True, ops), -1).reshape(node.output.shape)
    return [y / np.float32(length) if ops.real else y.astype(node.output.dtype)]


def _call(node: Node, kernel: str, inverse: bool, **params: Param) -> Call:
    x, n = node.input(0), fft_length(node) // 2
    constants = (table(w) for w in twiddles(n, inverse, x.type))
    rows = x.size // x.shape[-1]
    params |= {"fft": layout(n, inverse), "rows": rows}
    name = f"{kernel}_{TYPES[x.type][0]}"
    return Call(name, params, (x, *constants), (node.output,), scratch=2 * n * x.dtype.itemsize)


def lower(node: Node, target: Target) -> Call:
    return _call(node, "tw_rfft", False, length=node.input(0).shape[-1])


#: Lengths of transforms: powers of 2, other factors, a half that is odd.
LENGTHS = (4, 6, 8, 10, 16, 18, 32, 50, 60, 64, 90, 128, 256, 500, 512, 1024)


def _cases(op: str, rng: np.random.Generator) -> Iterator[Case]:
    for type in TYPES:
        for length in LENGTHS:
            yield _case(rng, op, type, (length,), length)
        yield _case(rng, op, type, (2, 3, 12), 12)
        yield _case(rng, op, type, (512,), 512, faint=True)
    if op == "CUSTOM:SignalRfft":
        yield _case(rng, op, "INT16", (480,), 512)
        yield _case(rng, op, "INT32", (2, 7), 16)
        yield _case(rng, op, "FLOAT32", (2, 1), 8)


def _case(rng: np.random.Generator, op: str, type: str, shape: Shape, length: int, faint: bool = False) -> Case:
    spectrum = (*shape[:-1], length + 2)
    inner, outer = (shape, spectrum) if op == "CUSTOM:SignalRfft" else (spectrum, (*shape[:-1], length))
    x, y = tensor(inner, type, name="x"), tensor(outer, type, name="y")
    node = Node(op, (x,), (y,), extra=custom(T=TYPES[type][1], fft_length=length))
    if type == "FLOAT32":
        return Case(node)
    info = np.iinfo(x.dtype)
    low, high = (-9, 9) if faint else (info.min, info.max)
    return Case(node, (rng.integers(low, high, inner, x.dtype, endpoint=True),))


OPS = (
    Op("CUSTOM:SignalRfft", infer, reference, lower, lambda rng: _cases("CUSTOM:SignalRfft", rng)),
    Op(
        "CUSTOM:SignalIrfft", infer_inverse, reference_inverse, lambda node, target: _call(node, "tw_irfft", True),
        lambda rng: _cases("CUSTOM:SignalIrfft", rng),
    ),
)  # fmt: skip
