"""Trains the ``digits`` model of bench/models/builtin.py with PyTorch and writes bench/data/digits.npz.

``python -m twinfer.bench.lab.train_digits`` takes a minute; with ``--data FOLDER`` it writes the samples for
``twinfer search`` instead: digits_train.npz and digits_held.npz. The data are scikit-learn's: 1,797 pictures of 8x8
pixels; every fifth is held out. The file holds the parameters (p0, p1, … in the order of the layers, TFLite's layouts),
the range of every activation over the training set, and the number of held-out pictures that each kind of model gets
right.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twinfer.bench.models.builtin import DIGITS, assemble, given, quantize, ranges
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.op import Shape
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session

SEED, EPOCHS, BATCH, RATE = 8, 60, 64, 1e-2

#: Filter shapes and strides of the windowed layers, as ``topologies.digits`` asks for them; then one dense layer.
LAYERS: tuple[tuple[Shape, int], ...] = (
    ((16, 3, 3, 1), 1),
    ((1, 3, 3, 16), 2),
    ((32, 1, 1, 16), 1),
    ((32, 3, 3, 32), 1),
)
DENSE = (10, 32)


def load() -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """(pictures float32 [n, 8, 8, 1] in 0..1, labels [n]) to train on, and the same held out."""
    from sklearn.datasets import load_digits

    data = load_digits()
    x = (data.images[..., None] / 16).astype(np.float32)
    held = np.arange(len(x)) % 5 == 0
    return (x[~held], data.target[~held]), (x[held], data.target[held])


def logits_of(parameters: Sequence[Any], x: Any) -> Any:
    """Logits [n, 10] of pictures [n, 8, 8, 1], as torch tensors; SAME at stride 2 over an even size pads the end
    alone."""
    from torch.nn import functional

    x = x.permute(0, 3, 1, 2)
    for i, (shape, stride) in enumerate(LAYERS):
        weights, bias = parameters[2 * i : 2 * i + 2]
        depthwise, window = shape[0] == 1, shape[1]
        x = functional.pad(x, ((window - stride) // 2, window // 2) * 2)
        order = (3, 0, 1, 2) if depthwise else (0, 3, 1, 2)
        groups = shape[3] if depthwise else 1
        x = functional.conv2d(x, weights.permute(order), bias, stride=stride, groups=groups).relu()
    return x.mean(dim=(2, 3)) @ parameters[-2].T + parameters[-1]


def train(x: Array, labels: Array) -> list[Array]:
    """Adam on the cross entropy, the rate falling along half a cosine."""
    import torch

    torch.set_num_threads(1)  # so that training repeats
    rng, parameters = np.random.default_rng(SEED), list[Any]()
    for shape in (*(shape for shape, _ in LAYERS), DENSE):
        fan_in = np.prod(shape[1:3]) if shape[0] == 1 else np.prod(shape[1:])
        first = rng.normal(0, np.sqrt(2 / fan_in), shape), np.zeros(shape[3] if shape[0] == 1 else shape[0])
        parameters += [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in first]
    steps = EPOCHS * (len(x) // BATCH)
    optimiser = torch.optim.AdamW(parameters, lr=RATE, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: (1 + np.cos(np.pi * step / steps)) / 2)
    for _ in range(steps):
        pick = rng.integers(0, len(x), BATCH)
        optimiser.zero_grad()
        logits = logits_of(parameters, torch.from_numpy(x[pick].astype(np.float64)))
        torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels[pick])).backward()
        optimiser.step()
        schedule.step()
    return [parameter.detach().numpy().astype(np.float32) for parameter in parameters]


def correct(graph: Graph, x: Array, labels: Array) -> int:
    """The number of pictures that the model gets right in the interpreter."""
    session = Session(make_plan(graph))
    source, right = graph.inputs[0], 0
    for picture, label in zip(x, labels, strict=True):
        value = picture[None]
        if source.type == "INT8":
            value = np.clip(np.round(value / source.scale) + source.zero, -128, 127)
        session.view(source)[...] = value
        session.run()
        right += int(session.view(graph.outputs[0]).argmax() == label)
    return right


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m twinfer.bench.lab.train_digits")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="write the samples to this folder, train nothing")
    folder, ((x, labels), held) = parser.parse_args().data, load()
    if folder is not None:
        np.savez_compressed(folder / "digits_train.npz", input=x, labels=labels)
        np.savez_compressed(folder / "digits_held.npz", input=held[0], labels=held[1])
        return
    parameters = train(x, labels)
    graph = assemble("digits", given(parameters))
    seen = ranges(graph, (picture[None] for picture in x))
    record = {
        "ranges": np.array([seen[node] for node in graph.nodes]),
        "held_out": np.array(len(held[0])),
        "correct_float32": np.array(correct(graph, *held)),
        "correct_int8": np.array(correct(quantize(graph, seen, (0, 1)), *held)),
    }
    DIGITS.parent.mkdir(exist_ok=True)
    np.savez_compressed(DIGITS, **{f"p{i}": p for i, p in enumerate(parameters)}, **record)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
