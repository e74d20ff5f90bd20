"""Layers of small networks in plain numpy, channels last: values, gradients, and export to ONNX.

Activations are float32 [n, *space, channels], with any number of dimensions of space; after ``GlobalAverage`` or
``Flatten`` [n, channels]. ``forward`` keeps what ``backward`` needs; ``backward`` takes the gradient of the output,
returns that of the input, and sets ``grads``, one for every array of ``values``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from twinfer.runtime.graph import Array
from twinfer.runtime.op import Shape

#: The share of the old values in the running mean and variance of batch normalisation, and epsilon.
MOMENTUM, EPSILON = 0.9, 1e-5


class Writer(Protocol):
    """The ONNX writer that ``export`` needs."""

    def node(self, op: str, x: str, *constants: Array, **attributes: Any) -> str:
        """Appends a node with one input and constants; returns the name of its output."""


class Layer:
    """A layer; this base class has no parameters."""

    def __init__(self) -> None:
        self.values: list[Array] = []
        self.grads: list[Array] = []

    def state(self) -> list[Array]:
        """All arrays that training changes: ``values``, and running statistics."""
        return self.values

    def forward(self, x: Array, *, training: bool) -> Array:
        raise NotImplementedError

    def backward(self, grad: Array) -> Array:
        raise NotImplementedError

    def export(self, writer: Writer, x: str) -> str:
        raise NotImplementedError


class Dense(Layer):
    """[n, inputs] -> [n, outputs], He's initialisation."""

    def __init__(self, inputs: int, outputs: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.values = [he((inputs, outputs), inputs, rng), np.zeros(outputs, np.float32)]

    def forward(self, x: Array, *, training: bool) -> Array:
        self._x = x
        return np.asarray(x @ self.values[0] + self.values[1])

    def backward(self, grad: Array) -> Array:
        self.grads = [self._x.T @ grad, grad.sum(0)]
        return np.asarray(grad @ self.values[0].T)

    def export(self, writer: Writer, x: str) -> str:
        return writer.node("Gemm", x, self.values[0].T, self.values[1], transB=1)


class BatchNorm(Layer):
    """Normalises every channel: over the batch in training, later by running mean and variance."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.values = [np.ones(channels, np.float32), np.zeros(channels, np.float32)]
        self.mean, self.variance = np.zeros(channels, np.float32), np.ones(channels, np.float32)

    def state(self) -> list[Array]:
        return [*self.values, self.mean, self.variance]

    def forward(self, x: Array, *, training: bool) -> Array:
        mean, variance = self.mean, self.variance
        if training:
            axes = tuple(range(x.ndim - 1))
            mean, variance = x.mean(axes), x.var(axes)
            self.mean = MOMENTUM * self.mean + (1 - MOMENTUM) * mean
            self.variance = MOMENTUM * self.variance + (1 - MOMENTUM) * variance
        self._deviation = np.sqrt(variance + np.float32(EPSILON))
        self._normal = (x - mean) / self._deviation
        return np.asarray(self._normal * self.values[0] + self.values[1])

    def backward(self, grad: Array) -> Array:
        axes = tuple(range(grad.ndim - 1))
        self.grads = [(grad * self._normal).sum(axes), grad.sum(axes)]
        count = grad.size // grad.shape[-1]
        pulled = grad - (self.grads[1] + self._normal * self.grads[0]) / np.float32(count)
        return np.asarray(pulled * self.values[0] / self._deviation)

    def export(self, writer: Writer, x: str) -> str:
        return writer.node("BatchNormalization", x, *self.values, self.mean, self.variance, epsilon=EPSILON)


class Relu(Layer):
    """max(x, 0), at most ``most`` if that is given (ReLU6)."""

    def __init__(self, most: float | None = None) -> None:
        super().__init__()
        self.most = most

    def forward(self, x: Array, *, training: bool) -> Array:
        self._open = (x > 0) & (x < (np.inf if self.most is None else self.most))
        return np.clip(x, 0, self.most)

    def backward(self, grad: Array) -> Array:
        return np.asarray(grad * self._open)

    def export(self, writer: Writer, x: str) -> str:
        if self.most is None:
            return writer.node("Relu", x)
        return writer.node("Clip", x, np.asarray(0, np.float32), np.asarray(self.most, np.float32))


class MaxPool(Layer):
    """The larger of every two neighbours along the one dimension of space, whose size is even."""

    def forward(self, x: Array, *, training: bool) -> Array:
        pairs = x.reshape(x.shape[0], -1, 2, x.shape[2])
        self._first = pairs[:, :, 0] >= pairs[:, :, 1]
        return np.asarray(pairs.max(2))

    def backward(self, grad: Array) -> Array:
        pairs = np.stack([grad * self._first, grad * ~self._first], axis=2)
        return pairs.reshape(grad.shape[0], -1, grad.shape[2])

    def export(self, writer: Writer, x: str) -> str:
        return writer.node("MaxPool", x, kernel_shape=[2], strides=[2])


class GlobalAverage(Layer):
    """[n, *space, channels] -> [n, channels]."""

    def forward(self, x: Array, *, training: bool) -> Array:
        self._shape = x.shape
        return np.asarray(x.mean(tuple(range(1, x.ndim - 1))))

    def backward(self, grad: Array) -> Array:
        n, *space, channels = self._shape
        spread = grad.reshape(n, *(1 for _ in space), channels) / np.float32(np.prod(space))
        return np.broadcast_to(spread, self._shape)

    def export(self, writer: Writer, x: str) -> str:
        return writer.node("Flatten", writer.node("GlobalAveragePool", x))


class Flatten(Layer):
    """[n, *space, 1] -> [n, elements]: one channel only, so that channels first and channels last have the same
    order."""

    def forward(self, x: Array, *, training: bool) -> Array:
        self._shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, grad: Array) -> Array:
        return grad.reshape(self._shape)

    def export(self, writer: Writer, x: str) -> str:
        return writer.node("Flatten", x)


def he(shape: Shape, fan_in: int, rng: np.random.Generator) -> Array:
    """Normal, of variance 2 / fan_in. Source: He et al. 2015."""
    return rng.normal(0, np.sqrt(2 / fan_in), shape).astype(np.float32)


def predict(layers: Sequence[Layer], x: Array) -> Array:
    """Logits [n, classes] of x [n, *space, channels], by running statistics."""
    for layer in layers:
        x = layer.forward(x, training=False)
    return x
