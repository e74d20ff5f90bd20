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

from twinfer.bench.models.topologies import LARGE, NETS, Net, Range, Weights
from twinfer.converter.build import Builder
from twinfer.runtime.graph import Array, Graph, Node, Tensor
from twinfer.runtime.op import Shape
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session

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
        return quantize(graph, ranges(graph, samples(name)), limits)
    with np.load(DIGITS) as stored:
        measured = [(float(low), float(high)) for low, high in stored["ranges"]]
    return quantize(graph, dict(zip(graph.nodes, measured, strict=True)), limits)


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


# -- post-training quantisation ----------------------------------------------------------------------------------------


#: Operators whose int8 output has the input's scale, because they only move or average values.
_KEEP_SCALE = ("AVERAGE_POOL_2D", "RESHAPE")


def ranges(graph: Graph, inputs: Iterable[Array]) -> dict[Node, Range]:
    """Least and greatest value of every node's output over these inputs and 0, a tenth wider and rounded."""
    session = Session(make_plan(graph, options=Options(preserve_all=True)))
    seen = dict.fromkeys(graph.nodes, (0.0, 0.0))
    for value in inputs:
        session.view(graph.inputs[0])[...] = value
        session.run()
        for node, (low, high) in seen.items():
            out = session.view(node.output)
            seen[node] = (min(low, float(out.min())), max(high, float(out.max())))
    return {node: (_widen(low), _widen(high)) for node, (low, high) in seen.items()}


def _widen(value: float) -> float:
    """Room for inputs that were not seen. Two digits, so that rounding on this machine does not show."""
    return float(f"{1.1 * value:.2g}")


def quantize(graph: Graph, seen: Mapping[Node, Range], limits: Range) -> Graph:
    """The int8 twin of a float32 graph whose nodes' outputs lie within ``seen`` and whose input lies within ``limits``.

    Weights are symmetric, per output channel (FULLY_CONNECTED: per tensor, as TFLite's converter does); softmax has
    TFLite's fixed scale 1/256.
    """
    source = graph.inputs[0]
    builder = Builder(graph.name)
    quantised = {source: builder.input(source.name, "INT8", source.shape, *_affine(limits))}
    for node in graph.nodes:
        x = quantised[node.input(0)]
        inputs = [x, *(quantised[t] for t in node.inputs[1:] if t in quantised)]
        if node.op in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
            inputs += _parameters(builder, node, x.scale)
        elif node.op == "RESHAPE":
            inputs.append(builder.constant(node.constant(1)))
        scale, zero = (1 / 256, -128) if node.op == "SOFTMAX" else _affine(seen[node])
        if node.op in _KEEP_SCALE:
            scale, zero = x.scale, x.zero
        out = node.output.shape
        quantised[node.output] = builder.op(node.op, inputs, out, scale=scale, zero=zero, **node.options)
    return builder.graph([quantised[t] for t in graph.outputs])


def _affine(limits: Range) -> tuple[float, int]:
    """Scale and zero point that spread the range over int8's 255 steps."""
    low, high = limits
    scale = float(np.float32((high - low) / 255))
    return scale, round(-128 - low / scale)


def _parameters(builder: Builder, node: Node, in_scale: float) -> tuple[Tensor, Tensor]:
    """Weights in int8 and bias in int32, as constants."""
    weights, bias = node.constant(1), node.constant(2)
    axis = 3 if node.op == "DEPTHWISE_CONV_2D" else 0
    others = tuple(a for a in range(weights.ndim) if a != axis)
    peak = abs(weights).max(axis=others if node.op != "FULLY_CONNECTED" else None, keepdims=True)
    scale = (np.maximum(peak, 1e-6) / 127).astype(np.float32)
    w = np.clip(np.round(weights / scale), -127, 127).astype(np.int8)
    bias_scale = (in_scale * scale.reshape(-1).astype(np.float64)).astype(np.float32)
    b = np.round(bias / bias_scale.astype(np.float64)).astype(np.int32)
    return builder.constant(w, scale.reshape(-1), axis=axis), builder.constant(b, bias_scale)
