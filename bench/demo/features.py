"""The model that makes features of sound for micro_speech and microWakeWord: TFLM's audio front end, in integers.

Source of the steps and constants: TensorFlow Lite's microfrontend (filterbank_util.c, pcan_gain_control_util.c,
window_util.c) with the settings of micro_speech: frames of 30 ms, 40 bands from 125 to 7,500 Hz.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from twinfer.converter.build import Builder
from twinfer.runtime.graph import Array, Graph, Tensor
from twinfer.runtime.ops.signal._custom import custom

#: Samples in a second, in a frame, and in the Fourier transform; bands, and their bits.
RATE, FRAME, FFT, BANDS, BITS = 16_000, 480, 512, 40, 12

LOW, HIGH = 125.0, 7_500.0

#: The bins of the spectrum that a band needs.
FIRST, END = 5, 241

_BINS = FFT // 2 + 1

#: Parts of 2^14: how fast the estimate of noise follows in even and in odd bands, and what is left of a band at least.
_NOISE = {
    "num_channels": BANDS, "smoothing": 409, "one_minus_smoothing": 15975, "alternate_smoothing": 983,
    "alternate_one_minus_smoothing": 15401, "smoothing_bits": 10, "spectral_subtraction_bits": 14,
    "min_signal_remaining": 819, "clamping": 0,
}  # fmt: skip


def features() -> Graph:
    """int16 [1, 480] of samples -> int16 [40]; keeps an estimate of the noise from frame to frame."""
    b = _Signals("features")
    x = b.input("frame", "INT16", (1, FRAME))
    (x,) = b.signal("Window", [x, window()], [("INT16", (1, FRAME))], shift=BITS)
    x = b.op("RESHAPE", [x, np.array([FRAME], np.int32)], shape=(FRAME,))
    x, scale = b.signal("FftAutoScale", [x], [("INT16", (FRAME,)), ("INT32", ())])
    (x,) = b.signal("Rfft", [x], [("INT16", (FFT + 2,))], T=7, fft_length=FFT)
    (x,) = b.signal("Energy", [x], [("UINT32", (_BINS,))], start_index=FIRST, end_index=END)
    x = b.op("CAST", [x], shape=x.shape, type="INT32")
    corners = [np.array([value], np.int32) for value in (FIRST, END, 1)]
    x = b.op("STRIDED_SLICE", [x, *corners], shape=(END - FIRST,))
    ends = [np.zeros(size, np.int32) for size in (FIRST, _BINS - END)]  # of what is not written
    x = b.op("CONCATENATION", [ends[0], x, ends[1]], shape=(_BINS,), axis=0)
    x = b.op("CAST", [x], shape=x.shape, type="UINT32")
    (x,) = b.signal("FilterBank", [x, *filters()], [("UINT64", (BANDS,))], num_channels=BANDS)
    (x,) = b.signal("FilterBankSquareRoot", [x, scale], [("UINT32", (BANDS,))])
    x, noise = b.signal("FilterBankSpectralSubtraction", [x], [("UINT32", (BANDS,))] * 2, **_NOISE)
    (x,) = b.signal("PCAN", [x, noise, gains()], [("UINT32", (BANDS,))], snr_shift=6)
    (x,) = b.signal("FilterBankLog", [x], [("INT16", (BANDS,))], output_scale=64, input_correction_bits=3)
    return b.graph([x])


class _Signals(Builder):
    """A builder with TFLM's operators for signals."""

    def signal(
        self, op: str, inputs: list[Any], outputs: list[tuple[str, tuple[int, ...]]], **how: int
    ) -> list[Tensor]:
        given = [x if isinstance(x, Tensor) else self.constant(x) for x in inputs]
        made = [self.add(Tensor(f"{op}_{i}", type, shape)) for i, (type, shape) in enumerate(outputs)]
        self.node(f"CUSTOM:Signal{op}", given, made, extra=custom(**how))
        return made


def window() -> Array:
    """int16 [480]: Hann's, in parts of 2^12."""
    at = 2 * np.pi * (np.arange(FRAME) + 0.5) / FRAME
    return np.floor((0.5 - 0.5 * np.cos(at)) * (1 << BITS) + 0.5).astype(np.int16)


def filters() -> list[Array]:
    """int16: weights and their complements, and of every band its first bin, first weight and number of weights.

    A bin's weight counts for a band, the complement for the next one. Bands begin at even bins and have a multiple of
    four weights, which are 0 where the band is narrower.
    """

    def mel(hertz: float) -> float:
        return 1127.0 * math.log1p(hertz / 700)

    each, (low, high) = RATE / 2 / (_BINS - 1), (mel(LOW), mel(HIGH))
    centres = [low + (high - low) / (BANDS + 1) * i for i in range(BANDS + 2)]
    weights, rests = list[int](), list[int]()
    starts: tuple[list[int], list[int], list[int]] = ([], [], [])
    at = int(1.5 + LOW / each)
    for before, centre in pairwise(centres):
        end = at
        while mel(end * each) <= centre:
            end += 1
        first = at // 2 * 2
        width = -(-(end - first) // 4) * 4
        for column, value in zip(starts, (first, len(weights), width), strict=True):
            column.append(value)
        shares = [
            (centre - mel(k * each)) / (centre - before) if at <= k < end else None for k in range(first, first + width)
        ]
        weights += [0 if share is None else int(share * (1 << BITS)) for share in shares]
        rests += [0 if share is None else int((1 - share) * (1 << BITS)) for share in shares]
        at = end
    return [np.array(values, np.int16) for values in (weights, rests, *starts)]


def gains() -> Array:
    """int16 [125]: the gain 2^21 / (x + 80)^0.95 over an estimate of noise, as parabolas between powers of two."""

    def gain(x: int) -> int:
        return min(32767, int((1 << 21) * (x / (1 << 7) + 80.0) ** -0.95 + 0.5))

    table = [gain(0), gain(1)]
    for interval in range(2, 33):
        start = 1 << (interval - 1)
        y0, y1, y2 = gain(start), gain(start + start // 2), gain(2 * start - (interval == 32))
        slope = 4 * (y1 - y0) - (y2 - y0)
        table += [y0, slope, y2 - y0 - slope, 0]
    return np.array(table[:-1], np.int16)
