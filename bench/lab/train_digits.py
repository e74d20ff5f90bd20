"""Trains the ``digits`` model of bench/models/builtin.py in plain numpy and writes bench/data/digits.npz.

``python -m twinfer.bench.lab.train_digits`` takes ten seconds; with ``--data FOLDER`` it writes the samples for
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
from numpy.lib.stride_tricks import sliding_window_view

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


def patches(x: Array, size: Shape, stride: int) -> Array:
    """Windows of a SAME-padded [n, h, w, c] as [n, oh, ow, kh, kw, c]."""
    padded = np.pad(x, ((0, 0), *(_pad(n, k, stride) for n, k in zip(x.shape[1:3], size, strict=True)), (0, 0)))
    windows = sliding_window_view(padded, size, axis=(1, 2))[:, ::stride, ::stride]
    return np.asarray(windows.transpose(0, 1, 2, 4, 5, 3))


def scatter(grad: Array, shape: Shape, stride: int) -> Array:
    """The adjoint of ``patches``: every window's gradient added back to where it was read."""
    size, (oh, ow) = grad.shape[3:5], grad.shape[1:3]
    pads = [_pad(n, k, stride) for n, k in zip(shape[1:3], size, strict=True)]
    out = np.zeros((shape[0], *(n + sum(p) for n, p in zip(shape[1:3], pads, strict=True)), shape[3]), grad.dtype)
    for i in range(size[0]):
        for j in range(size[1]):
            out[:, i : i + oh * stride : stride, j : j + ow * stride : stride] += grad[:, :, :, i, j]
    (top, _), (left, _) = pads
    return out[:, top : top + shape[1], left : left + shape[2]]


def _pad(size: int, window: int, stride: int) -> tuple[int, int]:
    total = max((-(-size // stride) - 1) * stride + window - size, 0)
    return total // 2, total - total // 2


def forward(parameters: Sequence[Array], x: Array) -> tuple[Array, list[Any]]:
    """Logits [n, 10], and the values that ``backward`` needs."""
    tape: list[Any] = []
    for i, (shape, stride) in enumerate(LAYERS):
        windows = patches(x, shape[1:3], stride)
        weights, bias = parameters[2 * i : 2 * i + 2]
        how = "nhwijc,oijc->nhwc" if shape[0] == 1 else "nhwijc,oijc->nhwo"
        y = np.maximum(np.einsum(how, windows, weights, optimize=True) + bias, 0)
        tape.append((x.shape, windows, y))
        x = y
    pooled = x.mean(axis=(1, 2))
    tape.append(pooled)
    return pooled @ parameters[-2].T + parameters[-1], tape


def backward(parameters: Sequence[Array], tape: list[Any], grad: Array) -> list[Array]:
    """Gradients of the parameters from the gradient of the logits."""
    grads = [grad.sum(0), grad.T @ tape[-1]]
    area = tape[-2][2].shape[1] * tape[-2][2].shape[2]
    g = np.broadcast_to((grad @ parameters[-2])[:, None, None] / area, tape[-2][2].shape)
    for i, (shape, stride) in reversed(list(enumerate(LAYERS))):
        before, windows, y = tape[i]
        g = g * (y > 0)
        to = "c" if shape[0] == 1 else "o"
        grads.append(g.sum((0, 1, 2)))
        grads.append(np.einsum(f"nhw{to},nhwijc->{to}ij" + ("" if to == "c" else "c"), g, windows, optimize=True))
        if to == "c":
            grads[-1] = grads[-1].transpose(1, 2, 0)[None]
        back = np.einsum(f"nhw{to},oijc->nhwijc", g, parameters[2 * i], optimize=True)
        g = scatter(back, before, stride)
    return grads[::-1]


def train(x: Array, labels: Array) -> list[Array]:
    """Adam on the cross entropy, the rate falling along half a cosine."""
    rng = np.random.default_rng(SEED)
    shapes = [shape for shape, _ in LAYERS] + [DENSE]
    parameters: list[Array] = []
    for shape in shapes:
        fan_in = np.prod(shape[1:3]) if shape[0] == 1 else np.prod(shape[1:])
        channels = shape[3] if shape[0] == 1 else shape[0]
        parameters += [rng.normal(0, np.sqrt(2 / fan_in), shape), np.zeros(channels)]
    mean, square = [np.zeros_like(p) for p in parameters], [np.zeros_like(p) for p in parameters]
    steps = EPOCHS * (len(x) // BATCH)
    for step in range(steps):
        pick = rng.integers(0, len(x), BATCH)
        logits, tape = forward(parameters, x[pick].astype(np.float64))
        odds = np.exp(logits - logits.max(1, keepdims=True))
        odds /= odds.sum(1, keepdims=True)
        odds[np.arange(BATCH), labels[pick]] -= 1
        rate = RATE * (1 + np.cos(np.pi * step / steps)) / 2
        for i, g in enumerate(backward(parameters, tape, odds / BATCH)):
            mean[i] = 0.9 * mean[i] + 0.1 * g
            square[i] = 0.999 * square[i] + 0.001 * g * g
            fixed = (1 - 0.9 ** (step + 1), 1 - 0.999 ** (step + 1))
            parameters[i] -= rate * (mean[i] / fixed[0] / (np.sqrt(square[i] / fixed[1]) + 1e-8) + 1e-4 * parameters[i])
    return [p.astype(np.float32) for p in parameters]


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


def write_data(folder: Path) -> None:
    """Writes the training samples and those held out, each as arrays for the model's input and ``labels``."""
    for name, (x, labels) in zip(("train", "held"), load(), strict=True):
        np.savez_compressed(folder / f"digits_{name}.npz", input=x, labels=labels)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m twinfer.bench.lab.train_digits")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="write the samples to this folder, train nothing")
    folder = parser.parse_args().data
    write_parameters() if folder is None else write_data(folder)


def write_parameters() -> None:
    (x, labels), held = load()
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
