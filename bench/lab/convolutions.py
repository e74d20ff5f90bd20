"""Convolutions of small networks in plain numpy; ``layers.py`` says what a layer is."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import numpy as np
from numpy.typing import DTypeLike

from twinfer.bench.lab.layers import Layer, Writer, he
from twinfer.runtime.graph import Array
from twinfer.runtime.op import Shape


class Windowed(Layer):
    """A convolution without bias (normalisation follows). Every side is padded by half the window, as in PyTorch;
    TFLite's SAME differs."""

    def __init__(self, weights: Array, kernel: Shape, stride: int) -> None:
        super().__init__()
        self.values, self.kernel, self.stride = [weights], kernel, stride

    def pad(self, x: Array) -> Array:
        """``x`` padded. Notes where every tap of the window reads in it."""
        padded = np.pad(x, ((0, 0), *((k // 2, k // 2) for k in self.kernel), (0, 0)))
        self._padded = padded.shape
        spans = [
            [slice(t, t + n - k + 1, self.stride) for t in range(k)]
            for k, n in zip(self.kernel, padded.shape[1:-1], strict=True)
        ]
        self.windows = [(slice(None), *at) for at in product(*spans)]
        return padded

    def scatter(self, taps: Iterable[Array], dtype: DTypeLike) -> Array:
        """The adjoint of reading the windows: every tap's gradient added back to where it was read."""
        out = np.zeros(self._padded, dtype)
        for at, tap in zip(self.windows, taps, strict=True):
            out[at] += tap
        inner = [slice(k // 2, n - k // 2) for k, n in zip(self.kernel, self._padded[1:-1], strict=True)]
        return out[(slice(None), *inner)]

    def export_weights(self, writer: Writer, x: str, weights: Array, group: int) -> str:
        """``weights`` [*window, inputs of a group, outputs]."""
        pads = [k // 2 for k in self.kernel] * 2
        strides = [self.stride] * len(self.kernel)
        return writer.node("Conv", x, np.moveaxis(weights, (-1, -2), (0, 1)), group=group, pads=pads, strides=strides)


class Conv(Windowed):
    """Weights [*kernel, inputs, outputs]."""

    def __init__(self, kernel: Shape, inputs: int, outputs: int, rng: np.random.Generator, stride: int = 1) -> None:
        super().__init__(he((*kernel, inputs, outputs), int(np.prod(kernel)) * inputs, rng), kernel, stride)

    def forward(self, x: Array, *, training: bool) -> Array:
        padded = self.pad(x)
        taps = np.concatenate([padded[at] for at in self.windows], axis=-1)
        self._space, self._taps = taps.shape[:-1], taps.reshape(-1, taps.shape[-1])
        return np.asarray(self._taps @ self._matrix()).reshape(*self._space, -1)

    def backward(self, grad: Array) -> Array:
        flat = grad.reshape(-1, grad.shape[-1])
        self.grads = [(self._taps.T @ flat).reshape(self.values[0].shape)]
        back = (flat @ self._matrix().T).reshape(*self._space, len(self.windows), -1)
        return self.scatter((back[..., i, :] for i in range(len(self.windows))), grad.dtype)

    def _matrix(self) -> Array:
        return self.values[0].reshape(-1, self.values[0].shape[-1])

    def export(self, writer: Writer, x: str) -> str:
        return self.export_weights(writer, x, self.values[0], 1)


class Depthwise(Windowed):
    """Weights [*kernel, channels]."""

    def __init__(self, kernel: Shape, channels: int, rng: np.random.Generator, stride: int = 1) -> None:
        super().__init__(he((*kernel, channels), int(np.prod(kernel)), rng), kernel, stride)

    def forward(self, x: Array, *, training: bool) -> Array:
        padded = self.pad(x)
        self._taps = [padded[at] for at in self.windows]
        return np.asarray(sum(tap * weights for tap, weights in zip(self._taps, self._rows(), strict=True)))

    def backward(self, grad: Array) -> Array:
        sums = [(tap * grad).reshape(-1, grad.shape[-1]).sum(0) for tap in self._taps]
        self.grads = [np.stack(sums).reshape(self.values[0].shape)]
        return self.scatter((grad * weights for weights in self._rows()), grad.dtype)

    def _rows(self) -> Array:
        return self.values[0].reshape(len(self.windows), -1)

    def export(self, writer: Writer, x: str) -> str:
        return self.export_weights(writer, x, self.values[0][..., None, :], self.values[0].shape[-1])
