"""The model that makes a spectrogram of sound for keyword spotters: mel-frequency cepstral coefficients (MFCC).

Source of the steps: tf.signal (stft, linear_to_mel_weight_matrix, mfccs_from_log_mel_spectrograms) with the settings of
MLPerf Tiny's keyword spotting: frames of 30 ms every 20 ms, 40 bands from 20 to 4,000 Hz, the first 10 coefficients.
"""

from __future__ import annotations

import numpy as np

from twinfer.converter.build import Builder
from twinfer.runtime.graph import Array, Graph, Node, Tensor
from twinfer.runtime.ops.signal._custom import custom

#: Samples in a second, in a frame, from frame to frame, and in the Fourier transform.
RATE, FRAME, STEP, FFT = 16_000, 480, 320, 512

FRAMES, BANDS, COEFFICIENTS = 49, 40, 10

LOW, HIGH = 20.0, 4_000.0


def spectrogram() -> Graph:
    """float32 [49, 480] of samples from -1 to 1 -> float32 [1, 49, 10, 1]."""
    b, bins = Builder("spectrogram"), FFT // 2 + 1
    x = b.input("frames", "FLOAT32", (FRAMES, FRAME))
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME) / FRAME)
    spectrum = _spectrum(b, b.op("MUL", [x, hann.astype(np.float32)[None]], shape=x.shape))
    pairs = b.op("RESHAPE", [spectrum, np.array([FRAMES * bins, 2], np.int32)], shape=(FRAMES * bins, 2))
    squares = b.op("MUL", [pairs, pairs])
    power = b.op("SUM", [squares, np.array([1], np.int32)], shape=(FRAMES * bins,), keep_dims=False)
    size = b.op("RESHAPE", [b.op("SQRT", [power]), np.array([FRAMES, bins], np.int32)], shape=(FRAMES, bins))
    bands = b.op("FULLY_CONNECTED", [size, mel(bins), None], shape=(FRAMES, BANDS))
    loud = b.op("LOG", [b.op("ADD", [bands, np.array([[1e-6]], np.float32)], shape=(FRAMES, BANDS))])
    y = b.op("FULLY_CONNECTED", [loud, cosines(), None], shape=(FRAMES, COEFFICIENTS))
    whole = (1, FRAMES, COEFFICIENTS, 1)
    return b.graph([b.op("RESHAPE", [y, np.array(whole, np.int32)], shape=whole)])


def _spectrum(b: Builder, x: Tensor) -> Tensor:
    y = b.add(Tensor("spectrum", "FLOAT32", (FRAMES, FFT + 2)))
    b.nodes.append(Node("CUSTOM:SignalRfft", (x,), (y,), extra=custom(T=0, fft_length=FFT), index=len(b.nodes)))
    return y


def mel(bins: int) -> Array:
    """float32 [BANDS, bins]: triangles of equal width on the mel scale; the first bin, of no frequency, is in none."""

    def scale(hertz: Array) -> Array:
        return 1127.0 * np.log(1 + hertz / 700)

    at = scale(np.linspace(0, RATE / 2, bins))
    low, high = scale(np.array([LOW, HIGH])).tolist()
    edges = np.linspace(low, high, BANDS + 2)
    rising = (at - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - at) / (edges[2:] - edges[1:-1])[:, None]
    weights = np.maximum(0, np.minimum(rising, falling))
    weights[:, 0] = 0
    return np.asarray(weights, np.float32)


def cosines() -> Array:
    """float32 [COEFFICIENTS, BANDS]: the discrete cosine transform (DCT-II), orthonormal but for its first row."""
    k, n = np.arange(COEFFICIENTS)[:, None], np.arange(BANDS)
    return np.asarray(np.cos(np.pi * k * (n + 0.5) / BANDS) * np.sqrt(2 / BANDS), np.float32)
