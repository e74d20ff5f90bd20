"""Spectra: frames of a signal and discrete Fourier transforms (DFT), by products with small matrices.

TFLite's RFFT2D has complex results, which microcontrollers lack, and powers of two only. One matrix for a whole frame
of 512 samples holds 1 MB. So where a length is a product, n = a * b, the transform is Cooley and Tukey's: transforms of
length a, a factor for every element, transforms of length b. For 512 = 16 * 32 these are 17 KB and 68,000
multiplications instead of 263,000.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.emit.emitter import Emitter, Operand, constant
from twinfer.converter.emit.products import fully_connected
from twinfer.runtime.errors import ModelError
from twinfer.runtime.graph import Tensor

#: A whole matrix is taken where two small ones, and the operators around them, would save fewer floats than this.
_WORTH = 2048

#: Up to so many frames, a table of what is in which is smaller than the slices that they would be joined from; of more
#: slices than this it is always taken.
_FRAMES, _SLICES = 100, 32


def fit(g: Emitter, x: Tensor, length: int) -> Tensor:
    """The last dimension cut, or filled with zeros, to this length."""
    more, lead = length - x.shape[-1], x.shape[:-1]
    if more > 0:
        return g.pad(x, [*[(0, 0)] * len(lead), (0, more)])
    return g.part(x, [0] * len(x.shape), (*lead, length))


def frames(g: Emitter, x: Tensor, length: int, hop: int) -> Tensor:
    """All whole windows over the last dimension of x [..., time], ``hop`` apart: [..., frames, length]."""
    *lead, time = x.shape
    count = (time - length) // hop + 1
    if count < 1 or hop < 1:
        raise ModelError(f"frames of {length}, {hop} apart, do not fit into the {time} samples of {x}")
    block = math.gcd(length, hop)
    step, each = hop // block, length // block
    blocks = g.reshape(fit(g, x, time // block * block), (*lead, time // block, block))
    if each > 1 and (count <= _FRAMES or each > _SLICES):
        g.budget.afford(4 * count * each, "a table of which samples are in which frame")
        seen = g.gather(blocks, np.arange(count)[:, None] * step + np.arange(each), len(lead))
        return g.reshape(seen, (*lead, count, length))
    parts = [
        g.slices(blocks, [*map(range, lead), range(i, i + (count - 1) * step + 1, step), range(block)])
        for i in range(each)
    ]
    return g.concat(parts, len(lead) + 1)


def overlap_add(g: Emitter, x: Tensor, hop: int) -> Tensor:
    """The sum of frames [..., frames, length] that begin ``hop`` apart: [..., hop * (frames - 1) + length]."""
    *lead, count, length = x.shape
    each = -(-length // hop)
    blocks = g.reshape(fit(g, x, each * hop), (*lead, count, each, hop))
    moved = []
    for i in range(each):  # block i of all frames, i blocks further on
        part = g.part(blocks, [*[0] * len(lead), 0, i, 0], (*lead, count, 1, hop))
        part = g.reshape(part, (*lead, count, hop))
        moved.append(g.pad(part, [*[(0, 0)] * len(lead), (i, each - 1 - i), (0, 0)]))
    total = reduce(lambda a, b: g.binary("ADD", a, b), moved)
    return fit(g, g.reshape(total, (*lead, (count + each - 1) * hop)), hop * (count - 1) + length)


def dft(g: Emitter, x: Tensor, imag: Tensor | None = None, *, bins: int = 0, inverse: bool = False) -> Tensor:
    """The DFT of the last dimension of x [..., n], or of complex numbers of which x is the real part.

    Returns real and imaginary part of the first ``bins`` results (0: all n), [..., 2, bins]. ``inverse``: with the
    other sign, and divided by n.
    """
    *lead, n = x.shape
    bins = bins or n
    flat = x if imag is None else g.concat([x, imag], len(lead))
    parts = flat.shape[-1] // n
    rows = g.reshape(flat, (math.prod(lead), parts, n))
    sign = 1 if inverse else -1
    a = _factor(n, parts, bins)
    y = _whole(g, rows, bins, sign) if a == 1 else _in_two(g, rows, a, bins, sign)
    if inverse:
        y = g.binary("MUL", y, np.array(1 / n, np.float32))
    return g.reshape(y, (*lead, 2, bins))


def parts(g: Emitter, spectrum: Tensor) -> tuple[Tensor, Tensor]:
    """Real and imaginary part, [..., bins] each, of what ``dft`` gives."""
    *lead, two, bins = spectrum.shape
    real, imag = (
        g.reshape(g.part(spectrum, [*[0] * len(lead), i, 0], (*lead, 1, bins)), (*lead, bins)) for i in range(two)
    )
    return real, imag


def power(g: Emitter, spectrum: Tensor) -> Tensor:
    """The squared magnitudes, [..., bins]."""
    *lead, _, bins = spectrum.shape
    square = g.binary("MUL", spectrum, spectrum)
    return g.emit("SUM", [square, np.array([len(lead)], np.int32)], (*lead, bins), keep_dims=False)


def stft(g: Emitter, x: Tensor, window: Operand, hop: int, *, length: int = 0, frame: int = 0, bins: int = 0) -> Tensor:
    """The DFT, as ``dft`` gives it, of all frames of x [..., time] times the window: [..., frames, 2, bins].

    ``frame``: samples of a frame, as many as the window has, if there is one. ``length``: of the transform, with zeros
    behind the frame (0: the frame's). ``bins``: how many results are kept (0: the first half and the middle).
    """
    given = g.operand(window)
    frame = frame or (given.shape[0] if given is not None else 0)
    length = length or frame
    cut = frames(g, x, frame, hop)
    seen = cut if given is None else g.binary("MUL", cut, given)
    return dft(g, fit(g, seen, length), bins=bins or length // 2 + 1)


def irfft(g: Emitter, real: Tensor, imag: Tensor, n: int) -> Tensor:
    """The n real values whose DFT begins with these n // 2 + 1 results [..., bins]: [..., n]. More are left out, and
    fewer are followed by zeros."""
    half = n // 2 + 1
    weight = np.full(half, 2 / n)
    weight[0] = 1 / n
    if n % 2 == 0:
        weight[-1] = 1 / n
    # the real part of the DFT, with the other sign, of the weighted results and zeros behind them
    spectrum = [fit(g, fit(g, x, half), n) for x in (real, imag)]
    scale = np.pad(weight, (0, n - half)).astype(np.float32)
    y = dft(g, *(g.binary("MUL", x, scale) for x in spectrum), inverse=True)
    return g.binary("MUL", parts(g, y)[0], np.array(n, np.float32))


def _factor(n: int, parts: int, bins: int) -> int:
    """The first of the two lengths whose transforms take the fewest multiplications; 1 for a single matrix."""
    whole, best, least = parts * n * 2 * bins, 1, math.inf
    for a in (a for a in range(2, n // 2 + 1) if n % a == 0):
        b = n // a
        products = 4 * parts * n * a + 4 * n * -(-bins // a)
        floats = 4 * parts * a * a + 2 * n + 4 * b * -(-bins // a)
        if products < min(least, whole) and floats + _WORTH < whole:
            best, least = a, products
    return best


def _angles(left: int, right: int, n: int, sign: int) -> NDArray[np.float64]:
    """Angles of exp(sign * 2 pi i * row * column / n). Products are taken modulo n first, so that they are exact."""
    turns = np.arange(left)[:, None] * np.arange(right) % n
    return np.asarray(sign * 2 * np.pi / n * turns, np.float64)


def _rotation(angles: NDArray[np.float64], parts: int) -> NDArray[np.float32]:
    """Weights that multiply complex numbers by exp(i angle): [2 * rows of the angles, parts * columns]."""
    cos, sin = np.cos(angles), np.sin(angles)
    table = np.block([[cos, -sin], [sin, cos]])[:, : parts * angles.shape[1]]
    return np.ascontiguousarray(table, np.float32)


def _linear(g: Emitter, x: Tensor, weights: NDArray[np.float32]) -> Tensor:
    return fully_connected(g, x, constant(weights))


def _whole(g: Emitter, x: Tensor, bins: int, sign: int) -> Tensor:
    """[rows, parts, n] -> [rows, 2, bins] by one matrix."""
    rows, parts, n = x.shape
    g.budget.afford(8 * parts * bins * n, f"the matrix of a Fourier transform of length {n}")
    y = _linear(g, g.reshape(x, (rows, parts * n)), _rotation(_angles(bins, n, n, sign), parts))
    return g.reshape(y, (rows, 2, bins))


def _in_two(g: Emitter, x: Tensor, a: int, bins: int, sign: int) -> Tensor:
    """[rows, parts, n] -> [rows, 2, bins]. Input b * i + j goes to result k + a * l: over i by exp(i k / a), times
    exp(j k / n), over j by exp(j l / b). Source: Cooley and Tukey, An algorithm for the machine calculation of complex
    Fourier series, 1965."""
    rows, parts, n = x.shape
    b, last = n // a, -(-bins // a)
    inner = g.transpose(g.reshape(x, (rows, parts, a, b)), (0, 3, 1, 2))
    inner = g.reshape(inner, (rows, b, parts * a))
    first = _rotation(_angles(a, a, a, sign), parts)
    turned = np.concatenate([-first[a:], first[:a]])  # the same times i
    shape = (rows, b, 2, a)
    y, iy = (g.reshape(_linear(g, inner, weights), shape) for weights in (first, turned))
    angles = _angles(b, a, n, sign)[:, None]
    y = g.binary("MUL", y, np.cos(angles).astype(np.float32))
    y = g.binary("ADD", y, g.binary("MUL", iy, np.sin(angles).astype(np.float32)))
    y = g.reshape(g.transpose(y, (0, 3, 2, 1)), (rows, a, 2 * b))
    y = g.reshape(_linear(g, y, _rotation(_angles(last, b, b, sign), 2)), (rows, a, 2, last))
    y = g.reshape(g.transpose(y, (0, 2, 3, 1)), (rows, 2, last * a))
    return fit(g, y, bins)


def windows(name: str, size: int, periodic: bool = True) -> NDArray[np.float64]:
    """The Hann, Hamming or Blackman window. Source: ONNX's HannWindow, HammingWindow and BlackmanWindow."""
    terms: dict[str, Sequence[float]] = {
        "hann": (0.5, -0.5), "hamming": (25 / 46, -21 / 46), "blackman": (0.42, -0.5, 0.08)
    }  # fmt: skip
    angle = 2 * np.pi * np.arange(size) / max(size if periodic else size - 1, 1)
    return np.asarray(sum(share * np.cos(i * angle) for i, share in enumerate(terms[name])))
