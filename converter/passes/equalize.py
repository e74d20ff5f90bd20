"""Cross-layer equalisation: scale the channels between two layers so that the ranges of both layers' weights agree.

A channel that leaves a layer through ReLU, or through nothing, may be divided by a positive factor if the next layer's
weights for it are multiplied by the same: the function stays, but weights that share a scale get similar ranges. For
weights quantised per tensor. Source: Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization and Bias
Correction", section 4.1. Not in the pipeline: it is of use before quantisation only, and changes float rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.passes._rewrite import View, rebuilt, renamed
from twinfer.runtime.graph import Graph, Node, Tensor

#: Axis of the weights that holds the channels that come out, and of those that go in.
OUT_AXIS = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0}
IN_AXIS = {"CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 1}

#: Activations f with f(s x) = s f(x) for positive s.
HOMOGENEOUS = ("NONE", "RELU")

#: Rounds over all pairs, and the change of the factors below which they end.
ROUNDS, CLOSE = 20, 1e-3

Values = dict[Tensor, NDArray[np.float64]]


@dataclass(frozen=True)
class _Pair:
    """Two layers, where the second alone reads what the first makes."""

    first: Node
    second: Node


def equalize(graph: Graph) -> Graph:
    """The graph with the weights of neighbouring layers equalised, until they change no more."""
    pairs = list(_pairs(graph))
    values = {t: np.asarray(t.data, np.float64) for pair in pairs for t in _parameters(pair)}
    for _ in range(ROUNDS):
        if not pairs or max([_balance(pair, values) for pair in pairs]) < CLOSE:
            break
    balanced = {t: _constant(t, v) for t, v in values.items()}
    return rebuilt(graph, [renamed(node, balanced) for node in graph.nodes])


def _parameters(pair: _Pair) -> Iterator[Tensor]:
    yield from (t for t in pair.first.inputs[1:3] if t is not None)
    yield pair.second.input(1)


def _pairs(graph: Graph) -> Iterator[_Pair]:
    """Neighbours, also across a RELU of its own, whose weights nobody else reads."""
    view = View(graph)
    for second in graph.nodes:
        if second.op not in IN_AXIS or not _own(view, second):
            continue
        source = second.input(0)
        relu = view.feeds(source, "RELU")
        first = view.feeds(relu.input(0) if relu else source, *OUT_AXIS)
        if first is not None and _own(view, first) and _fit(first, second):
            yield _Pair(first, second)


def _own(view: View, node: Node) -> bool:
    """Whether weights and bias are float constants of this node alone."""
    return all(
        t is None or (t.data is not None and t.type == "FLOAT32" and [*view.consumers[t]] == [node])
        for t in node.inputs[1:3]
    )


def _fit(first: Node, second: Node) -> bool:
    channels = first.input(1).shape[OUT_AXIS[first.op]]
    plain = first.options.get("fused_activation_function", "NONE") in HOMOGENEOUS
    one_each = second.op != "DEPTHWISE_CONV_2D" or second.options.get("depth_multiplier", 1) == 1
    return plain and one_each and second.input(1).shape[IN_AXIS[second.op]] == channels


def _balance(pair: _Pair, values: Values) -> float:
    """Equalise one pair in ``values``; returns the greatest change of a factor."""
    first, second = pair.first.input(1), pair.second.input(1)
    out, into = OUT_AXIS[pair.first.op], IN_AXIS[pair.second.op]
    before, after = _peaks(values[first], out), _peaks(values[second], into)
    alive = (before > 0) & (after > 0)
    factor = np.where(alive, np.sqrt(np.where(alive, before, 1) / np.where(alive, after, 1)), 1.0)
    values[first] = values[first] / _along(factor, out, values[first])
    values[second] = values[second] * _along(factor, into, values[second])
    bias = pair.first.optional(2)
    if bias is not None:
        values[bias] = values[bias] / factor
    return float(np.abs(factor - 1).max())


def _peaks(weights: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    others = tuple(a for a in range(weights.ndim) if a != axis)
    return np.asarray(np.abs(weights).max(axis=others), np.float64)


def _along(factor: NDArray[np.float64], axis: int, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return factor.reshape([-1 if a == axis else 1 for a in range(weights.ndim)])


def _constant(tensor: Tensor, values: NDArray[np.float64]) -> Tensor:
    data: NDArray[Any] = values.astype(np.float32)
    data.flags.writeable = False
    return replace(tensor, data=data)
