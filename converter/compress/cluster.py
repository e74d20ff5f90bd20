"""Clustering: integer weights that take at most 2**bits different values, chosen so that the error is least.

k-means in one dimension has an exact solution by dynamic programming. Source: Wang & Song 2011, "Ckmeans.1d.dp"; over
at most 255 different integers its plain O(k n^2) form takes milliseconds. Han et al. 2016 ("Deep Compression") cluster
weights so, and Choi et al. 2017 ("Towards the Limit of Network Quantization") weigh each by what it does to the output.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.compress.layers import Weights, layers_of, replace_weights
from twinfer.converter.compress.refit import Watch, can_fit
from twinfer.converter.quantize.calibrate import Progress
from twinfer.converter.quantize.recipe import Recipe
from twinfer.converter.quantize.rounding import feed_back, nearer
from twinfer.converter.quantize.samples import Samples
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Tensor

#: Layers with this share of zeros count as pruned: 0 stays one of their values, whatever it costs.
SPARSE = 0.25

#: The least importance of a value, as a share of the greatest: below it, sums of importances would not differ.
LEAST = 1e-9

Values = NDArray[np.float64]


def cluster(graph: Graph, recipe: Recipe, samples: Samples | None = None, progress: Progress | None = None) -> Graph:
    """The graph with clustered INT8 and INT4 weights in every layer that ``recipe`` names. Each layer is clustered
    alone.

    In pruned layers 0 stays 0. With ``samples`` (by input name, of the graph's own types; kept in memory) the error of
    every weight is spread over those that follow (``rounding.feed_back``), and biases take up what is left on average.
    ``progress(done, total)`` counts layers. InvalidArgumentError if there is none.
    """
    wanted = [w for w in layers_of(graph) if recipe.of_node(w.node).cluster and not w.is_float]
    if not wanted:
        raise InvalidArgumentError(
            "nothing to cluster: the recipe names no layer with integer weights; quantise the model (--quantize)"
        )
    watch, changed = None if samples is None else Watch(graph, samples), graph
    for i, weights in enumerate(wanted, 1):
        choice = recipe.of_node(weights.node)
        sparse = choice.prune > 0 or float(np.mean(weights.stored() == 0)) >= SPARSE
        if watch is not None and can_fit(weights):
            changed = replace_weights(changed, _fitted(watch, changed, weights, 1 << choice.cluster, sparse))
        else:
            stored = weights.stored()
            values = codebook(stored, np.square(weights.scales()), 1 << choice.cluster, sparse)
            changed = replace_weights(changed, {weights.tensor: weights.changed(snap(stored, values))})
        if progress is not None:
            progress(i, len(wanted))
    return changed


def codebook(stored: Values, importance: Values, count: int, keep_zero: bool = False) -> Values:
    """At most ``count`` integers, rising: those that stand for ``stored`` (integers, any shape) with the least sum of
    ``importance`` (broadcast against it) * squared difference. ``keep_zero``: 0, if it occurs, is one of them."""
    values, which = np.unique(stored, return_inverse=True)
    mass = np.bincount(which.reshape(-1), np.broadcast_to(importance, stored.shape).reshape(-1), len(values))
    mass = np.maximum(mass / (mass.max() or 1.0), LEAST)
    return values if len(values) <= count else _best(values, np.asarray(mass, np.float64), count, keep_zero)


def _best(values: Values, mass: Values, count: int, keep_zero: bool) -> Values:
    """Dynamic programming over where the clusters of the rising ``values`` begin."""
    cost, centre = _clusters(values, mass, keep_zero)
    least, starts = cost[0], []
    for _ in range(count - 1):  # least[j]: cost of the values up to j; each round allows one cluster more
        sums = np.concatenate([[np.inf], least[:-1]])[:, None] + cost
        starts.append(sums.argmin(axis=0))
        least = sums.min(axis=0)
    last, centres = len(values) - 1, []
    for start in reversed([np.zeros(len(values), np.int64), *starts]):
        centres.append(centre[start[last], last])
        last = start[last] - 1
    return np.unique(centres)


def _clusters(values: Values, mass: Values, keep_zero: bool) -> tuple[Values, Values]:
    """Cost and best integer of the cluster of values i to j, [i, j]; infinite for i > j."""
    sums = [np.concatenate([[0.0], np.cumsum(mass * values**power)]) for power in range(3)]
    weight, first, second = (s[None, 1:] - s[:-1, None] for s in sums)
    there = np.triu(np.ones(weight.shape, np.bool_))
    centre = np.round(first / np.where(there, weight, 1.0))
    if keep_zero:
        centre[(values <= 0)[:, None] & (values >= 0)[None, :] & (0 in values)] = 0
    cost = second - 2 * centre * first + centre**2 * weight
    return np.where(there, cost, np.inf), centre


def snap(stored: Values, values: Values) -> Values:
    """The nearest of the rising ``values``; the smaller one of two that are equally near."""
    between = (values[1:] + values[:-1]) / 2
    return values[np.searchsorted(between, stored, side="left")]


def _fitted(watch: Watch, graph: Graph, weights: Weights, count: int, sparse: bool) -> dict[Tensor, Tensor]:
    """The layer's weights clustered and its bias, so that its outputs over the samples change least."""
    fitting = watch.fitting(graph, weights)
    rows, matters = fitting.rows, fitting.fit.covariance
    kept = (rows != 0) if sparse else np.ones(rows.shape, np.bool_)
    wanted = fitting.fit.rows(kept)
    wide = fitting.widened(wanted)
    scales = wide.scales().reshape(*rows.shape[:2], 1)
    whole = wide.rounded(fitting.shaped(wanted)).reshape(rows.shape)
    values = codebook(whole, np.square(scales) * np.einsum("gii->gi", matters.sums)[:, None, :], count, sparse)

    def nearest(column: Values, k: int) -> Values:
        near = snap(column / scales[:, :, 0], values) * scales[:, :, 0]
        return np.where(kept[:, :, k], near, 0.0)

    plain = snap(whole, values) * scales
    fitted = feed_back(wanted, matters, nearest)
    fitted = np.where(nearer(fitting.fit.best, fitted, plain, matters)[:, :, None], fitted, plain)
    return fitting.stored(fitted, wide)
