"""The networks that ``accuracy`` measures: their layers, their training in numpy, and their ONNX files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from twinfer.bench.lab.convolutions import Conv, Depthwise
from twinfer.bench.lab.layers import BatchNorm, Dense, Flatten, GlobalAverage, Layer, MaxPool, Relu
from twinfer.runtime.graph import Array
from twinfer.runtime.op import Shape

BATCH, RATE, DECAY = 64, 1e-2, 1e-4

#: Opset and IR version of the files: old enough for every reader, new enough for Clip with inputs.
OPSET, IR = 17, 8

#: (shape of one sample with channels last, number of classes, randomness) -> layers.
Maker = Callable[[Shape, int, np.random.Generator], list[Layer]]


def mlp(hidden: Sequence[int], shape: Shape, classes: int, rng: np.random.Generator) -> list[Layer]:
    """Dense layers with ReLU between."""
    sizes = (int(np.prod(shape)), *hidden, classes)
    layers: list[Layer] = [Flatten()]
    for inputs, outputs in pairwise(sizes):
        layers += [Dense(inputs, outputs, rng), Relu()]
    return layers[:-1]


def block(conv: Layer, channels: int) -> list[Layer]:
    return [conv, BatchNorm(channels), Relu(6)]


def cnn(stride: int, shape: Shape, classes: int, rng: np.random.Generator) -> list[Layer]:
    """A convolution, then two depthwise-separable blocks, as in MobileNet."""
    layers = block(Conv((3, 3), shape[-1], 16, rng, stride), 16)
    for inputs, outputs, step in ((16, 32, 1), (32, 64, 2)):
        layers += block(Depthwise((3, 3), inputs, rng, step), inputs)
        layers += block(Conv((1, 1), inputs, outputs, rng), outputs)
    return [*layers, GlobalAverage(), Dense(64, classes, rng)]


def cnn1d(shape: Shape, classes: int, rng: np.random.Generator) -> list[Layer]:
    """Convolutions over time, each halved by max pooling or stride."""
    layers: list[Layer] = [Conv((5,), shape[-1], 16, rng), BatchNorm(16), Relu(), MaxPool()]
    layers += [Conv((5,), 16, 32, rng, 2), BatchNorm(32), Relu(), Conv((3,), 32, 32, rng), BatchNorm(32), Relu()]
    return [*layers, GlobalAverage(), Dense(32, classes, rng)]


#: Set -> model -> its maker and the number of epochs.
NETWORKS: Mapping[str, Mapping[str, tuple[Maker, int]]] = {
    "digits": {"mlp": (partial(mlp, (64, 32)), 40), "cnn": (partial(cnn, 1), 25)},
    "mnist": {"mlp": (partial(mlp, (128, 64)), 20), "cnn": (partial(cnn, 2), 10)},
    "motions": {"cnn1d": (cnn1d, 30)},
}


def fit(layers: Sequence[Layer], x: Array, y: Array, epochs: int, rng: np.random.Generator) -> None:
    """Adam on the cross entropy, the rate falling along half a cosine; weights, not biases, decay (Loshchilov 2019)."""
    flat = [(layer, i) for layer in layers for i in range(len(layer.values))]
    means, squares = ([np.zeros_like(layer.values[i]) for layer, i in flat] for _ in range(2))
    order = np.concatenate([rng.permutation(len(x))[: len(x) // BATCH * BATCH] for _ in range(epochs)])
    batches = order.reshape(-1, BATCH)
    for step, pick in enumerate(batches):
        _gradients(layers, x[pick], y[pick])
        rate = RATE * (1 + np.cos(np.pi * step / len(batches))) / 2
        fixed = 1 - 0.9 ** (step + 1), 1 - 0.999 ** (step + 1)
        for (layer, i), mean, square in zip(flat, means, squares, strict=True):
            value, grad = layer.values[i], layer.grads[i]
            mean += 0.1 * (grad - mean)
            square += 0.001 * (grad * grad - square)
            decay = DECAY * value if value.ndim > 1 else 0
            value -= (rate * (mean / fixed[0] / (np.sqrt(square / fixed[1]) + 1e-8) + decay)).astype(np.float32)


def _gradients(layers: Sequence[Layer], x: Array, y: Array) -> None:
    """Sets every layer's ``grads`` for the batch's cross entropy."""
    for layer in layers:
        x = layer.forward(x, training=True)
    odds = np.exp(x - x.max(1, keepdims=True))
    odds /= odds.sum(1, keepdims=True)
    odds[np.arange(len(y)), y] -= 1
    grad: Array = (odds / len(y)).astype(np.float32)
    for layer in reversed(layers):
        grad = layer.backward(grad)


class _Writer:
    """Collects ONNX nodes; satisfies layers.Writer."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def node(self, op: str, x: str, *constants: Array, **attributes: Any) -> str:
        name = f"{op.lower()}_{len(self.nodes)}"
        names = [f"{name}_{i}" for i in range(len(constants))]
        self.constants += [
            numpy_helper.from_array(np.array(c, order="C"), n) for c, n in zip(constants, names, strict=True)
        ]
        self.nodes.append(helper.make_node(op, [x, *names], [name], name, **attributes))
        return name


def to_onnx(layers: Sequence[Layer], shape: Shape) -> bytes:
    """The ONNX file of trained layers for one sample [channels, *space], with batch normalisation not yet folded."""
    writer, at = _Writer(), "x"
    for layer in layers:
        at = layer.export(writer, at)
    writer.nodes[-1].output[0] = "logits"
    classes = layers[-1].values[-1].size
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, *shape])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, classes])]
    graph = helper.make_graph(writer.nodes, "network", inputs, outputs, writer.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())
