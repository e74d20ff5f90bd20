"""The networks of ``accuracy`` and ``compression``: their layers, their ONNX files, and their training.

``make networks``, or ``python -m twinfer.bench.lab.networks [SET ...]``, trains them anew with PyTorch in some minutes.
After thousands of training steps the last bits of a matrix product change the whole network. So the figures are about
the networks in data/networks.npz, which were trained once. For every network the file has float16 [FOLDS, parameters],
exactly the values of its ONNX files; for every set it has a hash of samples and folds.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from rich.console import Console

from twinfer.bench.lab.datasets import DATASETS, Dataset
from twinfer.runtime.errors import ToolError, TwinferError
from twinfer.runtime.graph import Array
from twinfer.runtime.op import Shape

FILE = Path(__file__).resolve().parent / "data" / "networks.npz"

#: The seed of all randomness: folds, first weights, order of the samples.
SEED = 1

BATCH, RATE, DECAY, EPSILON = 64, 1e-2, 1e-4, 1e-5

#: Opset and IR version of the files: old enough for every reader, new enough for Clip with inputs.
OPSET, IR = 17, 8


@dataclass(frozen=True)
class Layer:
    """Dense, Conv and Depthwise (without a bias, padded by half the window), BatchNorm, ReLU, ReLU6, MaxPool of two
    neighbours, GlobalAverage, Flatten; Standardise, which after training is in the Dense layer behind it. Parameters
    are stored with channels last."""

    kind: str
    inputs: int = 0
    outputs: int = 0
    kernel: Shape = ()
    stride: int = 1

    @property
    def shapes(self) -> list[Shape]:
        """Of the parameters: of BatchNorm scale, bias, mean and variance."""
        match self.kind:
            case "Dense":
                return [(self.inputs, self.outputs), (self.outputs,)]
            case "Conv":
                return [(*self.kernel, self.inputs, self.outputs)]
            case "Depthwise":
                return [(*self.kernel, self.outputs)]
            case "BatchNorm":
                return [(self.outputs,)] * 4
        return []


#: (shape of one sample with channels first, number of classes) -> layers.
Maker = Callable[[Shape, int], list[Layer]]


def mlp(hidden: Sequence[int], shape: Shape, classes: int) -> list[Layer]:
    """Dense layers with ReLU between."""
    layers = [Layer("Flatten")]
    for inputs, outputs in pairwise((int(np.prod(shape)), *hidden, classes)):
        layers += [Layer("Dense", inputs, outputs), Layer("ReLU")]
    return layers[:-1]


def raw_mlp(hidden: Sequence[int], shape: Shape, classes: int) -> list[Layer]:
    """The same for features of very different ranges."""
    return [Layer("Standardise", shape[0]), *mlp(hidden, shape, classes)[1:]]


def cnn(stride: int, shape: Shape, classes: int) -> list[Layer]:
    """A convolution, then two depthwise-separable blocks, as in MobileNet."""
    layers = [Layer("Conv", shape[0], 16, (3, 3), stride), Layer("BatchNorm", outputs=16), Layer("ReLU6")]
    for inputs, outputs, step in ((16, 32, 1), (32, 64, 2)):
        layers += [Layer("Depthwise", inputs, inputs, (3, 3), step), Layer("BatchNorm", outputs=inputs), Layer("ReLU6")]
        layers += [Layer("Conv", inputs, outputs, (1, 1)), Layer("BatchNorm", outputs=outputs), Layer("ReLU6")]
    return [*layers, Layer("GlobalAverage"), Layer("Dense", 64, classes)]


def cnn1d(shape: Shape, classes: int) -> list[Layer]:
    """Convolutions over time, each halved by max pooling or stride."""
    layers = []
    for inputs, outputs, taps, stride in ((shape[0], 16, 5, 1), (16, 32, 5, 2), (32, 32, 3, 1)):
        layers += [Layer("Conv", inputs, outputs, (taps,), stride), Layer("BatchNorm", outputs=outputs), Layer("ReLU")]
    return [*layers[:3], Layer("MaxPool"), *layers[3:], Layer("GlobalAverage"), Layer("Dense", 32, classes)]


#: Set -> model -> its maker and the number of epochs.
NETWORKS: Mapping[str, Mapping[str, tuple[Maker, int]]] = {
    "digits": {"mlp": (partial(mlp, (64, 32)), 40), "cnn": (partial(cnn, 1), 25)},
    "mnist": {"mlp": (partial(mlp, (128, 64)), 20), "cnn": (partial(cnn, 2), 10)},
    "motions": {"cnn1d": (cnn1d, 30)},
    "cells": {"raw_mlp": (partial(raw_mlp, (32, 16)), 40)},
}


# -- files -------------------------------------------------------------------------------------------------------------


def network(data: Dataset, model: str, fold: int) -> bytes:
    """The ONNX file of the network that was trained without that fold: input "x" [1, channels, *space], output "logits"
    [1, classes]. ToolError if the stored networks are of other samples or folds."""
    arrays = _arrays(FILE)
    if not np.array_equal(arrays.get(data.name, b""), fingerprint(data)):
        raise ToolError(f"{FILE.name} belongs to other samples of {data.name}: make networks")
    return to_onnx(layers_of(data, model), arrays[f"{data.name}_{model}"][fold], data.x.shape[1:])


def layers_of(data: Dataset, model: str) -> list[Layer]:
    return NETWORKS[data.name][model][0](data.x.shape[1:], int(data.y.max()) + 1)


def fingerprint(data: Dataset) -> Array:
    """A hash of samples, classes and folds: uint8 [32]."""
    key = hashlib.sha256(data.x.tobytes() + data.y.tobytes())
    for _, held in data.folds(SEED):
        key.update(held.tobytes())
    return np.frombuffer(key.digest(), np.uint8)


@cache
def _arrays(path: Path) -> dict[str, Array]:
    if not path.exists():
        return {}
    with np.load(path) as file:
        return dict(file)


def to_onnx(layers: Sequence[Layer], parameters: Array, shape: Shape) -> bytes:
    """The ONNX file of layers with all their parameters, one behind the other, for one sample [channels, *space]."""
    nodes, constants, at = list[onnx.NodeProto](), list[onnx.TensorProto](), "x"
    rest = parameters.astype(np.float32)

    def add(op: str, *arrays: Array, **attributes: Any) -> None:
        nonlocal at
        name = f"{op.lower()}_{len(nodes)}"
        names = [f"{name}_{i}" for i in range(len(arrays))]
        constants.extend(map(numpy_helper.from_array, (np.array(a, order="C") for a in arrays), names))
        nodes.append(helper.make_node(op, [at, *names], [name], name, **attributes))
        at = name

    for layer in layers:
        arrays = []
        for sizes in layer.shapes:
            arrays.append(rest[: np.prod(sizes)].reshape(sizes))
            rest = rest[np.prod(sizes) :]
        match layer.kind:
            case "Dense":
                add("Gemm", arrays[0].T, arrays[1], transB=1)
            case "Conv" | "Depthwise":
                alone = layer.kind == "Depthwise"
                weights = np.moveaxis(arrays[0][..., None, :] if alone else arrays[0], (-1, -2), (0, 1))
                window = {"pads": [k // 2 for k in layer.kernel] * 2, "strides": [layer.stride] * len(layer.kernel)}
                add("Conv", weights, group=layer.outputs if alone else 1, **window)
            case "BatchNorm":
                add("BatchNormalization", *arrays, epsilon=EPSILON)
            case "ReLU6":
                add("Clip", np.array(0, np.float32), np.array(6, np.float32))
            case "ReLU":
                add("Relu")
            case "MaxPool":
                add("MaxPool", kernel_shape=[2], strides=[2])
            case "GlobalAverage":
                add("GlobalAveragePool")
                add("Flatten")
            case "Standardise":
                pass
            case _:
                add(layer.kind)
    nodes[-1].output[0] = "logits"
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, *shape])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, layers[-1].outputs])]
    graph = helper.make_graph(nodes, "network", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


# -- training ----------------------------------------------------------------------------------------------------------


def module_of(layers: Sequence[Layer]) -> Any:
    """The layers in PyTorch."""
    from torch import nn

    def made(layer: Layer) -> Any:
        flat = len(layer.kernel) == 1
        match layer.kind:
            case "Dense":
                return nn.Linear(layer.inputs, layer.outputs)
            case "Conv" | "Depthwise":
                groups = layer.inputs if layer.kind == "Depthwise" else 1
                how: dict[str, Any] = {"stride": layer.stride, "padding": layer.kernel[0] // 2, "groups": groups}
                convolution = nn.Conv1d if flat else nn.Conv2d
                return convolution(layer.inputs, layer.outputs, layer.kernel[0], bias=False, **how)
            case "BatchNorm":
                return nn.BatchNorm1d(layer.outputs, EPSILON) if one else nn.BatchNorm2d(layer.outputs, EPSILON)
            case "Standardise":
                return nn.BatchNorm1d(layer.inputs, EPSILON, affine=False)
            case "MaxPool":
                return nn.MaxPool1d(2)
            case "GlobalAverage":
                return nn.Sequential(nn.AdaptiveAvgPool1d(1) if one else nn.AdaptiveAvgPool2d(1), nn.Flatten())
        return getattr(nn, layer.kind)()

    one = any(len(layer.kernel) == 1 for layer in layers)
    return nn.Sequential(*map(made, layers))


def fit(layers: Sequence[Layer], x: Array, y: Array, epochs: int) -> Array:
    """The parameters after training: Adam on the cross entropy, the rate falling along half a cosine; weights decay
    (Loshchilov 2019), biases do not."""
    import torch

    torch.set_num_threads(1)  # so that training repeats
    torch.manual_seed(SEED)
    module, rng = module_of(layers), np.random.default_rng(SEED)
    order = np.concatenate([rng.permutation(len(x))[: len(x) // BATCH * BATCH] for _ in range(epochs)])
    decays = [{"params": [p for p in module.parameters() if (p.ndim > 1) == weights], "weight_decay": DECAY * weights}
              for weights in (False, True)]  # fmt: skip
    optimiser = torch.optim.AdamW(decays, lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(len(order) // BATCH, 1))
    for pick in order.reshape(-1, BATCH):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(module(torch.from_numpy(x[pick])), torch.from_numpy(y[pick])).backward()
        optimiser.step()
        schedule.step()
    return np.concatenate([value.reshape(-1) for value in _parameters(layers, module)])


def _parameters(layers: Sequence[Layer], module: Any) -> Iterator[Array]:
    """The parameters of a module as they are stored."""
    if layers[0].kind == "Standardise":
        _fold(module[0], module[1])
    for layer, own in zip(layers, module, strict=True):
        names = ("weight", "bias", "running_mean", "running_var")[: len(layer.shapes)]
        for name, shape in zip(names, layer.shapes, strict=True):
            value = getattr(own, name).detach().numpy()
            yield (np.moveaxis(value, (0, 1), (-1, -2)) if value.ndim > 1 else value).reshape(shape)


def _fold(standardise: Any, dense: Any) -> None:
    """Puts the mean and the deviation of the features into the weights of the layer behind."""
    weights = dense.weight.data / (standardise.running_var + EPSILON).sqrt()
    dense.bias.data -= weights @ standardise.running_mean
    dense.weight.data = weights


def main(argv: Sequence[str] | None = None) -> int:
    """Trains the networks of the sets; those of other sets stay. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m twinfer.bench.lab.networks", description="Train the networks anew."
    )
    parser.add_argument("sets", nargs="*", choices=[[], *DATASETS], metavar="SET", help=f"of {', '.join(DATASETS)}")
    arrays, progress = dict(_arrays(FILE)), Console(stderr=True, markup=False)
    try:
        for name in parser.parse_args(argv).sets or DATASETS:
            data = DATASETS[name]()
            arrays[name] = fingerprint(data)
            for model, (_, epochs) in NETWORKS[name].items():
                with progress.status(f"training {name} {model}"):
                    folds = (train for train, _ in data.folds(SEED))
                    rows = [fit(layers_of(data, model), data.x[train], data.y[train], epochs) for train in folds]
                arrays[f"{name}_{model}"] = np.array(rows).astype(np.float16)
    except TwinferError as error:
        progress.print(f"networks: {error}", style="red", soft_wrap=True)
        return 2
    np.savez_compressed(FILE, **arrays)  # type: ignore[arg-type]
    _arrays.cache_clear()
    return 0


if __name__ == "__main__":
    sys.exit(main())
