"""Fits the weights that are left by least squares over samples, so that a layer gives what it gave before.

Layers are fitted in order. Each one sees what the changed layers before it give, and so corrects their error too.
Source: the layer-wise problem of Hassibi & Stork 1993 (Optimal Brain Surgeon), Frantar & Alistarh 2022 (Optimal Brain
Compression) and 2023 (SparseGPT), solved exactly for the weights that are left; the fit to the original outputs from
the changed inputs is He et al. 2017's ("Channel Pruning for Accelerating Very Deep Neural Networks").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.compress.layers import Bias, Weights, bias_of, has_bias
from twinfer.converter.quantize.affine import real
from twinfer.converter.quantize.calibrate import run
from twinfer.converter.quantize.rounding import DAMPING, MOST_INPUTS, Gram, Rows, inputs_of, windows
from twinfer.converter.quantize.samples import Samples, samples_of
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Node, Tensor
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session


@dataclass(frozen=True)
class Moments:
    """Sums over all windows of a layer, with a 1 behind its inputs for the bias, damped: ``gram`` of x xT and ``cross``
    of x yT, where x is what the layer sees now and y is what it saw before. Both are [groups, inputs + 1, inputs +
    1]."""

    gram: NDArray[np.float64]
    cross: NDArray[np.float64]


@dataclass(frozen=True)
class Fitting:
    """A layer and the fit of its weights. ``rows`` are the real weights, [groups, outputs, inputs]; ``bias`` is None if
    it must not change."""

    weights: Weights
    bias: Bias | None
    rows: Rows
    fit: Fit

    def widened(self, rows: Rows) -> Weights:
        """The weights with scales large enough for these rows. The scales stay if a bias that must not change depends
        on them."""
        if self.bias is None and has_bias(self.weights):
            return self.weights
        return self.weights.widened(self.shaped(rows))

    def shaped(self, rows: NDArray[Any]) -> NDArray[Any]:
        return rows.reshape(self.weights.stored().shape)

    def stored(self, rows: Rows, wide: Weights) -> dict[Tensor, Tensor]:
        """The new constants for these rows, in ``wide``'s scales, with the bias that fits them."""
        constants = {self.weights.tensor: wide.changed(wide.rounded(self.shaped(rows)))}
        if self.bias is None:
            return constants
        return {**constants, self.bias.tensor: self.bias.changed(self.fit.bias(rows).reshape(-1), wide)}


def can_fit(weights: Weights) -> bool:
    """Whether ``grams.windows`` knows the layer's inputs, and they are few enough."""
    return inputs_of(weights.node) <= MOST_INPUTS


class Watch:
    """A graph before any change. It runs on all samples whenever a layer of its changed twin is asked for."""

    def __init__(self, graph: Graph, samples: Samples) -> None:
        self.graph = graph
        self.before = Session(make_plan(graph, options=Options(preserve_all=True)))
        self.samples = list(samples_of(graph, samples))

    def fitting(self, changed: Graph, weights: Weights) -> Fitting:
        """A layer's weights, to be fitted to what they see in ``changed``."""
        moments, bias = self.moments(changed, weights), bias_of(self.graph, weights)
        rows = weights.values().reshape(len(moments.gram), -1, moments.gram.shape[1] - 1)
        return Fitting(weights, bias, rows, Fit(moments, rows, bias is not None))

    def moments(self, changed: Graph, weights: Weights) -> Moments:
        """The moments of a layer of ``changed``, a graph that differs from this one in weights and biases only."""
        now = Session(make_plan(changed, options=Options(preserve_all=True)))
        self.before.reset_variables()  # SVDF remembers samples: both begin the stream anew
        gram: NDArray[np.float64] | float = 0.0
        cross: NDArray[np.float64] | float = 0.0
        for sample in self.samples:
            run(self.before, sample)
            run(now, sample)
            for node in weights.nodes:
                x, y = _inputs(now, node), _inputs(self.before, node)
                with np.errstate(invalid="ignore", over="ignore"):
                    gram, cross = gram + x.transpose(0, 2, 1) @ x, cross + x.transpose(0, 2, 1) @ y
        if not np.isfinite(gram).all() or not np.isfinite(cross).all():
            raise InvalidArgumentError(f"{weights.node}: its input is not finite on every sample, it cannot be fitted")
        gram, cross = np.asarray(gram), np.asarray(cross)
        diagonal = np.einsum("gii->gi", gram)[
            :, :-1
        ]  # a term holds the weights, but not the bias, near their old values
        held = DAMPING * diagonal.mean(axis=1) + np.finfo(np.float32).tiny
        damping = held[:, None, None] * np.diag([*np.ones(gram.shape[1] - 1), 0.0])
        return Moments(gram + damping, cross + damping)


def _inputs(session: Session, node: Node) -> NDArray[np.float64]:
    """[groups, windows, inputs + 1]"""
    tensor = node.input(0)
    x = windows(node, real(session.view(tensor), tensor))
    return np.concatenate([x, np.ones((*x.shape[:2], 1))], axis=2)


class Fit:
    """Least squares for the rows of one layer: ``rows`` [groups, outputs, inputs] are what they were."""

    def __init__(self, moments: Moments, rows: Rows, has_bias: bool) -> None:
        self.inputs, self.has_bias = rows.shape[2], has_bias
        size = self.inputs + has_bias
        whole = np.concatenate([rows, np.zeros((*rows.shape[:2], 1))], axis=2)
        self.gram = moments.gram[:, :size, :size]
        self.inverse = np.linalg.inv(self.gram)
        #: What would fit best if no weight had to be zero, the change of the bias behind the weights.
        self.free = whole @ moments.cross.transpose(0, 2, 1)[:, :, :size] @ self.inverse

    @property
    def best(self) -> Rows:
        """The rows that would fit best if no weight had to be zero."""
        return self.free[:, :, : self.inputs]

    @property
    def covariance(self) -> Gram:
        """How much changed rows matter after the bias has made up for what it can."""
        weights = self.gram[:, : self.inputs, : self.inputs]
        if not self.has_bias:
            return Gram(weights)
        sums = self.gram[:, : self.inputs, self.inputs]
        return Gram(np.asarray(weights - sums[:, :, None] * sums[:, None, :] / self.gram[:, -1:, -1:]))

    def rows(self, kept: NDArray[np.bool_]) -> Rows:
        """The best rows that are zero where ``kept`` [groups, outputs, inputs] says so."""
        fitted = np.zeros(kept.shape)
        for group, output in np.ndindex(kept.shape[:2]):
            fitted[group, output] = self._row(group, output, kept[group, output])
        return fitted

    def bias(self, rows: Rows) -> NDArray[np.float64]:
        """The best change of the biases [groups, outputs] if the rows are these; 0 without a bias."""
        if not self.has_bias:
            return np.zeros(rows.shape[:2])
        off = np.einsum("gri,gi->gr", rows - self.best, self.gram[:, -1, : self.inputs])
        return np.asarray(self.free[:, :, -1] - off / self.gram[:, -1, -1:])

    def _row(self, group: int, output: int, kept: NDArray[np.bool_]) -> NDArray[np.float64]:
        """One row. The weights that go and those that stay give equivalent systems; the smaller one is solved."""
        gram, inverse, free = self.gram[group], self.inverse[group], self.free[group, output]
        stays = np.append(kept, np.ones(int(self.has_bias), np.bool_))
        row = np.zeros_like(free)
        if 2 * stays.sum() > len(free):
            steps = np.linalg.solve(inverse[np.ix_(~stays, ~stays)], free[~stays])
            row[stays] = free[stays] - inverse[np.ix_(stays, ~stays)] @ steps
        else:
            row[stays] = np.linalg.solve(gram[np.ix_(stays, stays)], gram[stays] @ free)
        return np.asarray(row[: self.inputs])
