"""The models that twinfer brings along, so that it can show and measure itself without a file.

The four topologies of MLPerf Tiny and a temporal convolutional network with seeded weights (they compute as much as
real ones, but are not trained), MobileNetV2 likewise, and a small network trained on scikit-learn's digits
(bench/lab/train_digits.py), each in float32 and in int8. Every int8 model is its float32 twin quantised here: scales
from the ranges that the twin's activations take on seeded inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from twinfer.bench.models.quantised import quantized, ranges
from twinfer.bench.models.topologies import LARGE, NETS, Net, Weights
from twinfer.runtime.graph import Array, Graph
from twinfer.runtime.op import Shape

_EVERY = {**NETS, **LARGE}

DIGITS = Path(__file__).resolve().parents[1] / "data" / "digits.npz"


def builtin() -> dict[str, Callable[[], Graph]]:
    """Name -> function that builds the model, always the same one."""
    return _named(NETS)


def large() -> dict[str, Callable[[], Graph]]:
    """The same of models that take seconds to make."""
    return _named(LARGE)


def _named(nets: Iterable[str]) -> dict[str, Callable[[], Graph]]:
    return {f"{name}_{kind}": partial(make, name) for name in nets for kind, make in _KINDS.items()}


def float_model(name: str) -> Graph:
    """The float32 model of that name."""
    if name != "digits":
        return assemble(name, seeded(name))
    with np.load(DIGITS) as stored:
        return assemble(name, given([stored[key] for key in stored.files if key[0] == "p"]))


def int8_model(name: str) -> Graph:
    """The int8 model of that name, by post-training quantisation of its float32 twin."""
    graph, limits = float_model(name), _EVERY[name][2]
    if name != "digits":
        return quantized(graph, ranges(graph, samples(name)), limits)
    with np.load(DIGITS) as stored:
        measured = [(float(low), float(high)) for low, high in stored["ranges"]]
    return quantized(graph, dict(zip(graph.nodes, measured, strict=True)), limits)


_KINDS: Mapping[str, Callable[[str], Graph]] = {"int8": int8_model, "float32": float_model}


def assemble(name: str, weights: Weights) -> Graph:
    """The float32 model of that name with these weights."""
    layers, shape, _ = _EVERY[name]
    net = Net(name, shape, weights)
    return net.builder.graph([layers(net)])


def seeded(name: str) -> Weights:
    """Random weights under which activations neither fade nor grow: a ReLU leaves about a third of the variance, and
    filters that sum to zero pass on no mean. They are multiples of 2**-12, so that rounding on this machine does not
    show."""
    rng = np.random.default_rng(list(name.encode()))

    def draw(shape: Shape, axis: int) -> tuple[Array, Array]:
        others = tuple(a for a in range(len(shape)) if a != axis)
        weights = rng.standard_normal(shape)
        weights -= weights.mean(axis=others, keepdims=True)
        weights *= math.sqrt(3 / math.prod(shape[a] for a in others))
        bias = rng.normal(0, 0.1, shape[axis])
        return _even(weights), _even(bias)

    return draw


def _even(values: Array) -> Array:
    return (np.round(values * 4096) / 4096).astype(np.float32)


def given(parameters: Iterable[Array]) -> Weights:
    """Stored parameters: weights, bias, weights, bias, … in the order of the layers."""
    rest = iter(parameters)
    return lambda shape, axis: (next(rest).reshape(shape), next(rest))


def samples(name: str, count: int = 12) -> list[Array]:
    """Seeded inputs, uniform over the input's range."""
    _, shape, (low, high) = _EVERY[name]
    rng = np.random.default_rng(len(name))
    return [rng.uniform(low, high, shape).astype(np.float32) for _ in range(count)]
