"""Cross-layer equalisation: scale the channels between two layers so that the ranges of both layers' weights agree.

A channel that leaves a layer through ReLU, or through nothing, may be divided by a positive factor if the next layer's
weights for it are multiplied by the same: the function stays, but weights that share a scale get similar ranges. For
weights quantised per tensor. Source: Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization and Bias
Correction", section 4.1. Not in the pipeline: it is of use before quantisation only, and changes float rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.facts import Parameters
from twinfer.converter.passes._rewrite import View, rebuild, with_tensors
from twinfer.converter.table import parameters_of, row_of
from twinfer.runtime.graph import Graph, Node, Tensor

#: Activations f with f(s x) = s f(x) for positive s.
HOMOGENEOUS = ("NONE", "RELU")

#: The most rounds over all pairs, and the change of the factors below which they end.
ROUNDS, CLOSE = 20, 1e-3

Values = dict[Tensor, NDArray[np.float64]]


@dataclass(frozen=True)
class _Pair:
    """Two layers and where their weights and bias are. The second alone reads what the first gives."""

    first: Node
    second: Node
    of_first: Parameters
    of_second: Parameters


def equalize(graph: Graph) -> Graph:
    """The graph with the weights of neighbouring layers equalised, until they change no more."""
    pairs = list(_pairs(graph))
    parameters = [(*_own(p.first, p.of_first), p.second.input(p.of_second.weights)) for p in pairs]
    values = {t: np.asarray(t.data, np.float64) for each in parameters for t in each}
    for _ in range(ROUNDS):
        if not pairs or max([_balance(pair, values) for pair in pairs]) < CLOSE:
            break
    balanced = dict[Tensor, Tensor]()
    for tensor, value in values.items():
        data = value.astype(np.float32)
        data.flags.writeable = False
        balanced[tensor] = replace(tensor, data=data)
    return rebuild(graph, [with_tensors(node, balanced) for node in graph.nodes])


def _own(node: Node, at: Parameters) -> list[Tensor]:
    bias = None if at.bias is None else node.optional(at.bias)
    return [node.input(at.weights), *([] if bias is None else [bias])]


def _pairs(graph: Graph) -> Iterator[_Pair]:
    """Neighbours, also with a RELU between them, whose weights nobody else reads."""
    view = View(graph)
    for second in graph.nodes:
        of_second = _changeable(view, second)
        if of_second is None:
            continue
        source = second.input(row_of(second).first)
        relu = view.feeds(source, "RELU")
        first = view.feeds(relu.input(0) if relu else source)
        of_first = None if first is None else _changeable(view, first)
        if first is not None and of_first is not None:
            pair = _Pair(first, second, of_first, of_second)
            if _fit(pair):
                yield pair


def _changeable(view: View, node: Node) -> Parameters | None:
    """Where weights and bias are, if they are float constants of this node alone and channels can be scaled."""
    at = parameters_of(node)
    if at is None or at.summed is None:
        return None
    alone = all(t.data is not None and t.type == "FLOAT32" and [*view.consumers[t]] == [node] for t in _own(node, at))
    return at if alone else None


def _fit(pair: _Pair) -> bool:
    """Whether the activation lets factors through, and the second layer's weights have a channel for each of the
    first's: a depthwise one with a multiplier has more."""
    plain = pair.first.options.get("fused_activation_function", "NONE") in HOMOGENEOUS
    read = pair.second.input(pair.of_second.weights).shape[pair.of_second.summed or 0]
    return plain and read == pair.of_first.channels(pair.first)


def _balance(pair: _Pair, values: Values) -> float:
    """Equalise one pair in ``values``; returns the greatest change of a factor."""
    first, *biases = _own(pair.first, pair.of_first)
    second = pair.second.input(pair.of_second.weights)
    out, into = pair.of_first.axis, pair.of_second.summed or 0
    before, after = _peaks(values[first], out), _peaks(values[second], into)
    alive = (before > 0) & (after > 0)
    factor = np.where(alive, np.sqrt(np.where(alive, before, 1) / np.where(alive, after, 1)), 1.0)
    values[first] = values[first] / _along(factor, out, values[first])
    values[second] = values[second] * _along(factor, into, values[second])
    for bias in biases:
        values[bias] = values[bias] / factor
    return float(np.abs(factor - 1).max())


def _peaks(weights: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    others = tuple(a for a in range(weights.ndim) if a != axis)
    return np.asarray(np.abs(weights).max(axis=others), np.float64)


def _along(factor: NDArray[np.float64], axis: int, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return factor.reshape([-1 if a == axis else 1 for a in range(weights.ndim)])
