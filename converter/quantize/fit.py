"""Weights and biases of a quantised graph, layer after layer, so that each layer gives what the float one gives.

Every layer sees what the quantised layers before it give, and so corrects their error too, as far as a sum over its
inputs can. Its weights are rounded so that its output changes least (``rounding.feed_back``); then weights go up or
down a step, one after another, where that helps; the bias makes up for what is left on average. Source: Frantar et al.
2023, "GPTQ"; Nagel et al. 2020, "Up or Down?"; He et al. 2017 for the fit from changed inputs to what was before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.loops import found
from twinfer.converter.passes._rewrite import rebuild
from twinfer.converter.quantize.affine import real
from twinfer.converter.quantize.rounding import (
    MOST_INPUTS,
    Gram,
    Rows,
    drawn,
    feed_back,
    from_rows,
    inputs_of,
    most_windows,
    nearer,
    rows_of,
    windows,
)
from twinfer.converter.quantize.samples import Sample
from twinfer.converter.quantize.walk import Walk
from twinfer.converter.quantize.weights import MOST, MOST_BIAS, Layer, bias_tensor, weight_quant, weight_tensor
from twinfer.converter.table import parameters_of
from twinfer.runtime.graph import Array, Graph, Node, Quant, Tensor

#: Shares of a channel's greatest weight that its scale may reach, by bits of the weights.
SHARES = {8: (1.0, 0.95, 0.9, 0.85), 4: tuple(1.0 - 0.05 * i for i in range(13))}

#: How much weights may be held where they were, as shares of the mean energy of the inputs; infinite: they stay.
HELD = (0.01, 0.1, 1.0, 10.0, np.inf)

#: What is added to that energy where weights are rounded; infinite: each is rounded for itself.
DAMPED = (0.01, np.inf)

#: One sample of so many judges what the others were fitted to.
JUDGE = 4

#: How often single weights are tried a step up or down, and how many columns change before others see it.
ROUNDS, BLOCK = 2, 64


@dataclass(frozen=True)
class Moments:
    """Sums over windows x of what a layer sees and y of what its float twin sees, each with a 1 behind it for the bias:
    ``gram`` of x xT, ``cross`` of x yT, [groups, inputs + 1, inputs + 1]."""

    gram: NDArray[np.float64]
    cross: NDArray[np.float64]

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.gram + other.gram, self.cross + other.cross)

    @cached_property
    def matters(self) -> NDArray[np.float64]:
        """How much changes of weights matter after the bias has made up for what it can."""
        sums = self.gram[:, :-1, -1]
        return np.asarray(self.gram[:, :-1, :-1] - sums[:, :, None] * sums[:, None, :] / self.gram[:, -1:, -1:])

    def damped(self, share: float) -> Gram:
        return Gram(_raised(self.matters, share))

    def best(self, rows: Rows, held: float) -> Rows:
        """The real weights that give what ``rows`` gave, held where those are."""
        if np.isinf(held):
            return rows
        sums, means = self.gram[:, :-1, -1], self.cross[:, -1, :-1]
        cross = self.cross[:, :-1, :-1] - sums[:, :, None] * means[:, None, :] / self.gram[:, -1:, -1:]
        wanted = (cross + held * _energy(self.matters)[:, None, None] * np.eye(rows.shape[2])) @ rows.transpose(0, 2, 1)
        solved = np.linalg.solve(_raised(self.matters, held), wanted).transpose(0, 2, 1)
        return np.where(rows == 0, 0.0, solved)

    def bias(self, rows: Rows, changed: Rows) -> NDArray[np.float64]:
        """The change of the biases, [groups, outputs], if the rows become ``changed``."""
        before, after = np.einsum("gri,gi->gr", rows, self.cross[:, -1, :-1]), changed @ self.gram[:, :-1, -1:]
        return np.asarray((before - after[:, :, 0]) / self.gram[:, -1, -1:])

    def error(self, rows: Rows, changed: Rows, bias: NDArray[np.float64]) -> float:
        """The squared error of the outputs, but for what does not depend on what is changed."""
        after = np.concatenate([changed, bias[:, :, None]], axis=2)
        before = np.concatenate([rows, np.zeros((*rows.shape[:2], 1))], axis=2)
        twice = 2 * np.einsum("gri,gri->", after @ self.cross, before)
        return float(np.einsum("gri,gri->", after @ self.gram, after) - twice)


def _raised(matters: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """With that share of the mean energy added to every input's."""
    raised = matters.copy()
    np.einsum("gii->gi", raised)[...] += share * _energy(matters)[:, None]
    return raised


def _energy(matters: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.einsum("gii->gi", matters).mean(axis=1) + np.finfo(np.float32).tiny)


def can_fit(graph: Graph) -> bool:
    """Whether nodes can run one by one: no operator sets another's state."""
    return not any(t.variable for node in graph.nodes for t in node.outputs)


#: Of the nodes that were fitted, by their outputs' names: how much weights are held, and what is added to the energy.
How = Mapping[str, tuple[float, float]]


def fitted(graph: Graph, quantized: Graph, samples: Sequence[Sample], how: How | None = None) -> tuple[Graph, How]:
    """The quantised graph with weights and biases fitted to the float ``graph``, its twin, over the samples, and how.
    ``how`` of another fit saves finding it."""
    found_how: dict[str, tuple[float, float]] = {}
    uses = Counter(t for node in graph.nodes for t in node.inputs if t is not None)
    uses.update(t for loop in found(graph) for node in loop.all_nodes for t in node.inputs if t is not None)
    floats, whole = Walk(graph, samples), Walk(quantized, samples)
    nodes = []
    for twins, node in _pairs(graph, quantized):
        for twin in twins[:-1]:
            floats.run(twin)
        changed = node
        if twins and (layer := _layer(twins[-1], node, uses)) is not None:
            x, seen = floats.values[layer.node.input(0)], whole.values[node.input(0)]
            pairs = list(zip((real(v, node.input(0)) for v in seen), x, strict=True))
            key = node.outputs[0].name
            whole_of, found_how[key] = _moments_of(layer, node, pairs, None if how is None else how.get(key))
            changed = _changed(layer, node, whole_of, *found_how[key])
        if twins:
            floats.run(twins[-1])
        whole.run(changed)
        nodes.append(changed)
    return rebuild(quantized, nodes), found_how


def _pairs(graph: Graph, quantized: Graph) -> Iterator[tuple[Sequence[Node], Node]]:
    """Each quantised node, with the float nodes that come before it and, as the last one, its twin; none for a node
    that only changes the type."""
    left, names = list(graph.nodes), {t.name for node in graph.nodes for t in node.outputs}
    for node in quantized.nodes:
        at = -1
        if node.outputs and node.outputs[0].name in names:
            at = next((i for i, n in enumerate(left) if n.outputs and n.outputs[0].name == node.outputs[0].name), -1)
        yield left[: at + 1], node
        del left[: at + 1]


def _layer(twin: Node, node: Node, uses: Mapping[Tensor, int]) -> Layer | None:
    """The float layer, if the quantised one has integer weights that are multiplied with its input and that no other
    node has, nor the same step of a loop: these stay equal."""
    at = parameters_of(twin)
    if at is None or at.summed is None or twin.op != node.op or twin.input(0).data is not None:
        return None
    weights, bias = node.input(at.weights), None if at.bias is None else node.optional(at.bias)
    known = weights.type in ("INT8", "INT4") and node.input(0).type in ("INT8", "INT16") and bias is not None
    if not known or weights.quant is None or uses[twin.input(at.weights)] > 1 or inputs_of(twin) > MOST_INPUTS:
        return None
    per_channel = weights.quant.scale.size > 1
    return Layer(twin, at, 4 if weights.type == "INT4" else 8, per_channel)


def _moments_of(
    layer: Layer,
    node: Node,
    pairs: Sequence[tuple[Array, Array]],
    how: tuple[float, float] | None,
) -> tuple[Moments, tuple[float, float]]:
    """The moments over all samples, and how much weights are held and damped: as is best for a part of the samples
    that the others were fitted to, where ``how`` does not say it. ``pairs``: inputs of the quantised and float node."""
    most = most_windows(layer.node, len(pairs))
    if how is not None or len(pairs) == 1:
        return _moments(layer, pairs, most), how or (HELD[-1], DAMPED[0])
    judge, *others = [_moments(layer, pairs[i::JUDGE], most) for i in range(min(JUDGE, len(pairs)))]
    fit = sum(others[1:], start=others[0])
    rows = _rows(layer, fit)
    bests = {h: fit.best(rows, h) for h in HELD}
    held = min(HELD, key=lambda h: judge.error(rows, bests[h], fit.bias(rows, bests[h])))
    tried = {d: _rounded(layer, bests[held], rows, fit, d, node.input(0).scale)[1] for d in DAMPED}
    damped = min(DAMPED, key=lambda d: judge.error(rows, tried[d], fit.bias(rows, tried[d])))
    return fit + judge, (held, damped)


def _rows(layer: Layer, moments: Moments) -> Rows:
    """The float weights, [groups, outputs, inputs]."""
    groups, inputs, _ = moments.gram.shape
    return rows_of(layer.values(), layer.parameters.axis).reshape(groups, -1, inputs - 1)


def _changed(layer: Layer, node: Node, moments: Moments, held: float, damped: float) -> Node:
    """The quantised node with fitted weights and bias."""
    at, in_scale, rows = layer.parameters, node.input(0).scale, _rows(layer, moments)
    quant, values = _rounded(layer, moments.best(rows, held), rows, moments, damped, in_scale)
    bias = layer.biases() + moments.bias(rows, values).reshape(-1)
    scales = np.broadcast_to(quant.scale.astype(np.float64), (layer.channels,))[:, None]
    q = from_rows(np.round(values.reshape(layer.channels, -1) / scales), layer.weights.shape, at.axis).astype(np.int64)
    inputs = list(node.inputs)
    inputs[at.weights] = replace(weight_tensor(layer, quant, q), name=node.input(at.weights).name)
    if at.bias is not None:
        old = node.input(at.bias)
        inputs[at.bias] = replace(bias_tensor(layer, bias, in_scale, quant, old.type == "INT64"), name=old.name)
    return replace(node, inputs=tuple(inputs))


def _moments(layer: Layer, pairs: Sequence[tuple[Array, Array]], most: int) -> Moments:
    seen, wanted = zip(*pairs, strict=True)
    x, y = _drawn(layer, seen, most), _drawn(layer, wanted, most)
    return Moments(x.transpose(0, 2, 1) @ x, x.transpose(0, 2, 1) @ y)


def _drawn(layer: Layer, values: Sequence[Array], most: int) -> NDArray[np.float64]:
    """Windows of the input with a 1 behind each for the bias, [groups, windows, inputs + 1]: all, or ``most`` of every
    sample, the same for the same shapes."""
    rng, parts = np.random.default_rng(0), []
    for value in values:
        parts.append(windows(layer.node, value, drawn(layer.node, most, rng)))
    every = np.concatenate(parts, axis=1)
    return np.concatenate([every, np.ones((*every.shape[:2], 1))], axis=2)


def _quant(layer: Layer, best: Rows, energy: NDArray[np.float64], in_scale: float) -> Quant:
    """Scales for the weights ``best``: of the SHARES the one with the least error of rounding, weighed by the
    ``energy`` [groups, inputs] of the inputs."""
    rows, most = best.reshape(layer.channels, -1), MOST[layer.bits]
    full = weight_quant(layer, in_scale, from_rows(rows, layer.weights.shape, layer.parameters.axis))
    least = np.abs(layer.biases()) / MOST_BIAS / in_scale
    least = least if layer.per_channel else least.max(keepdims=True)
    weighed = np.repeat(energy, len(rows) // len(energy), axis=0)
    errors, scales = [], []
    for share in SHARES[layer.bits]:
        scale = np.maximum(full.scale * share, least)
        step = scale.astype(np.float64).reshape(-1, 1)
        off = np.clip(np.round(rows / step), -most, most) * step - rows
        error = (off * off * weighed).sum(axis=1)
        errors.append(error if full.scale.size > 1 else error.sum(keepdims=True))
        scales.append(scale)
    chosen = np.take_along_axis(np.array(scales), np.argmin(errors, axis=0)[None], axis=0)[0]
    return replace(full, scale=chosen.astype(np.float32))


def _rounded(
    layer: Layer, best: Rows, rows: Rows, moments: Moments, damped: float, in_scale: float
) -> tuple[Quant, Rows]:
    """Scales, and the real values of the integers that stand for ``best``. Weights that are 0 in ``rows`` stay 0."""
    most, gram = MOST[layer.bits], moments.damped(damped if np.isfinite(damped) else DAMPED[0])
    diagonal = np.einsum("gii->gi", gram.sums)
    quant = _quant(layer, best, diagonal, in_scale)
    scales = np.broadcast_to(quant.scale.astype(np.float64), (layer.channels,)).reshape(rows.shape[:2])
    steps = scales[:, :, None]
    plain = np.clip(np.round(best / steps), -most, most) * steps
    if np.isinf(damped):
        return quant, plain

    def nearest(values: Rows, k: int) -> Rows:
        return np.where(rows[:, :, k] == 0, 0.0, np.clip(np.round(values / scales), -most, most) * scales)

    q = feed_back(best, gram, nearest)
    q = np.where(nearer(best, q, plain, gram)[:, :, None], q, plain)
    for _ in range(ROUNDS):
        for low in range(0, q.shape[2], BLOCK):
            block = slice(low, low + BLOCK)
            pull = (q - best) @ gram.sums[:, :, block]
            for k in range(low, min(low + BLOCK, q.shape[2])):
                step = np.clip(np.round(-pull[:, :, k - low] / (scales * diagonal[:, None, k])), -1, 1) * scales
                step = np.where(rows[:, :, k] == 0, 0.0, step)
                step = np.clip(q[:, :, k] + step, -most * scales, most * scales) - q[:, :, k]
                q[:, :, k] += step
                pull += step[:, :, None] * gram.sums[:, None, k, block]
    return quant, q
