"""The inputs of a layer's weights as Gram matrices, which tell how much a change of the weights matters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.table import parameters_of, row_of
from twinfer.runtime.graph import Array, Node
from twinfer.runtime.ops.core.window import shifted, window_of

#: Layers with more weights per output get no Gram matrix: it would be too large.
MOST_INPUTS = 2304

#: Share of the mean of a Gram matrix's diagonal that is added to it.
DAMPING = 0.01


@dataclass(frozen=True, eq=False)
class Gram:
    """Gram matrices of a layer's inputs, [groups, inputs, inputs]: one group, one per group of CONV_2D's channels, or
    one per channel (DEPTHWISE_CONV_2D)."""

    sums: NDArray[np.float64]

    @cached_property
    def spread(self) -> NDArray[np.float64]:
        """The upper Cholesky factor of the inverse, [groups, inputs, inputs]: where a weight's error goes."""
        diagonal = np.einsum("gii->gi", self.sums)
        damping = DAMPING * diagonal.mean(axis=1) + np.finfo(np.float32).tiny
        damped = self.sums + damping[:, None, None] * np.eye(self.sums.shape[1])
        scale = damped.max(axis=(1, 2), keepdims=True)  # only ratios count; this avoids overflow
        return np.asarray(np.linalg.cholesky(np.linalg.inv(damped / scale)).transpose(0, 2, 1), np.float64)

    def error(self, off: NDArray[np.float64]) -> NDArray[np.float64]:
        """How much weights that are ``off`` [groups, outputs, inputs] change each output: [groups, outputs]."""
        return np.asarray(np.einsum("gri,gri->gr", off @ self.sums, off))


def inputs_of(node: Node) -> float:
    """Number of weights per output; infinite for a node whose outputs are not sums over windows of the input."""
    parameters = parameters_of(node)
    if parameters is None or parameters.summed is None or node.input(row_of(node).first).data is not None:
        return math.inf
    shape = node.input(parameters.weights).shape
    return math.prod(extent for axis, extent in enumerate(shape) if axis != parameters.axis)


def windows(node: Node, x: Array) -> NDArray[np.float64]:
    """The values that the weights are multiplied with if input 0 is ``x`` (real): [groups, windows, inputs]."""
    row = row_of(node)
    if not row.image:
        return np.asarray(x.reshape(1, -1, node.input(1).shape[1]), np.float64)
    _, k_h, k_w, last = node.input(1).shape
    g = window_of(node, k_h, k_w, node.output.shape[3])
    taps = np.stack([shifted(x, g, ky, kx, 0) for ky, kx in g.taps()], axis=3)  # [batch, y, x, tap, channel]
    each = 1 if row.parameters is not None and row.parameters.depthwise else last
    grouped = taps.reshape(g.pixels, k_h * k_w, g.in_c // each, each).transpose(2, 0, 1, 3)
    return np.asarray(grouped.reshape(g.in_c // each, g.pixels, -1), np.float64)
