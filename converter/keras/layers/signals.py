"""Fourier transforms of ``keras.ops``, whose complex numbers are pairs of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from twinfer.converter.emit import audio
from twinfer.converter.emit.emitter import Emitter
from twinfer.converter.keras.call import Call, Importer, numbers
from twinfer.runtime.graph import Tensor


def _pair(call: Call) -> tuple[Tensor, Tensor]:
    first = call.args[0] if call.args else next(iter(call.kwargs.values()))
    real, imag = first
    return real, imag


def fft(g: Emitter, call: Call) -> list[Tensor]:
    return [*audio.parts(g, audio.dft(g, *_pair(call)))]


def fft2(inverse: bool) -> Importer:
    """Over the last two dimensions."""

    def run(g: Emitter, call: Call) -> list[Tensor]:
        real, imag = _pair(call)
        order = [*range(len(real.shape) - 2), len(real.shape) - 1, len(real.shape) - 2]
        for _ in range(2):
            y = audio.parts(g, audio.dft(g, real, imag, inverse=inverse))
            real, imag = (g.transpose(part, order) for part in y)
        return [real, imag]

    return run


def rfft(g: Emitter, call: Call) -> list[Tensor]:
    x = call.input()
    n = call.layer.fft_length or x.shape[-1]
    return [*audio.parts(g, audio.dft(g, audio.fit(g, x, n), bins=n // 2 + 1))]


def irfft(g: Emitter, call: Call) -> Tensor:
    real, imag = _pair(call)
    return audio.irfft(g, real, imag, call.layer.fft_length or 2 * (real.shape[-1] - 1))


def _window(call: Call, name: Any, length: int, fft_length: int) -> np.ndarray:
    """The window, with zeros before and behind it up to the transform's length."""
    own = call.layer
    if name is None:
        table = np.ones(length)
    elif isinstance(name, str):
        call.need(name in ("hann", "hamming"), f"window {name!r}; use hann, hamming, or an array")
        table = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length)
        table = table if name == "hann" else 0.08 + 0.92 * table
    else:
        table = numbers(own.window).astype(np.float64)
    before = (fft_length - length) // 2
    return np.pad(table, (before, fft_length - length - before))


def stft(g: Emitter, call: Call) -> list[Tensor]:
    own, x = call.layer, call.input()
    length = own.fft_length
    window = _window(call, own.window, own.sequence_length, length)
    if own.center:
        half = length // 2
        pads = np.array([*[(0, 0)] * (len(x.shape) - 1), (half, half)], np.int32)
        call.need(half < x.shape[-1], "a signal that is shorter than half a frame")
        x = g.emit("MIRROR_PAD", [x, pads], (*x.shape[:-1], x.shape[-1] + 2 * half), mode="REFLECT")
    return [*audio.parts(g, audio.stft(g, x, window.astype(np.float32), own.sequence_stride))]


def istft(g: Emitter, call: Call) -> Tensor:
    """The frames times the window, added up, over the sum of the window's squares."""
    own = call.layer
    real, imag = _pair(call)
    length, hop, count = own.fft_length, own.sequence_stride, real.shape[-2]
    window = _window(call, own.window, own.sequence_length, length)
    seen = g.binary("MUL", audio.irfft(g, real, imag, length), window.astype(np.float32))
    y = audio.overlap_add(g, seen, hop)
    total = np.zeros(y.shape[-1])
    for i in range(count):
        total[i * hop : i * hop + length] += window**2
    y = g.binary("DIV", y, np.where(total > 1e-10, total, 1).astype(np.float32))
    begin = length // 2 if own.center else 0
    end = begin + own.length if own.length is not None else y.shape[-1] - begin
    y = audio.fit(g, y, max(end, y.shape[-1]))
    return g.part(y, [*[0] * (len(y.shape) - 1), begin], (*y.shape[:-1], end - begin))


IMPORTERS: dict[str, Importer] = {
    "ops.FFT": fft,
    "ops.FFT2": fft2(False),
    "ops.IFFT2": fft2(True),
    "ops.IRFFT": irfft,
    "ops.ISTFT": istft,
    "ops.RFFT": rfft,
    "ops.STFT": stft,
}
