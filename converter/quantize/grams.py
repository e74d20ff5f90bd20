"""What a layer's weights are multiplied with, as matrices: these tell how much a change of the weights matters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from twinfer.runtime.graph import Node
from twinfer.runtime.op import Array
from twinfer.runtime.ops.core.window import shifted, window_of

#: Layers with more weights an output have no Gram matrix: it would be large.
MOST_INPUTS = 2304

#: Share of the mean of a Gram matrix's diagonal that is added to it.
DAMPING = 0.01

#: The operators that ``windows`` knows.
KNOWN = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


@dataclass(frozen=True, eq=False)
class Gram:
    """Gram matrices of a layer's inputs, [groups, inputs, inputs]: one group, one a group of CONV_2D's channels, or one
    a channel (DEPTHWISE_CONV_2D)."""

    sums: NDArray[np.float64]

    @cached_property
    def spread(self) -> NDArray[np.float64]:
        """The upper Cholesky factor of the inverse, [groups, inputs, inputs]: where a weight's error goes."""
        diagonal = np.einsum("gii->gi", self.sums)
        damping = DAMPING * diagonal.mean(axis=1) + np.finfo(np.float32).tiny
        damped = self.sums + damping[:, None, None] * np.eye(self.sums.shape[1])
        scale = damped.max(axis=(1, 2), keepdims=True)  # only ratios count: keeps the inverse within floats
        return np.asarray(np.linalg.cholesky(np.linalg.inv(damped / scale)).transpose(0, 2, 1), np.float64)

    def error(self, off: NDArray[np.float64]) -> NDArray[np.float64]:
        """How much weights that are ``off`` [groups, outputs, inputs] change each output: [groups, outputs]."""
        return np.asarray(np.einsum("gri,gri->gr", off @ self.sums, off))


def inputs_of(node: Node) -> float:
    """Weights of one output; infinite for a node that is none of these layers."""
    if node.op not in KNOWN or node.input(0).data is not None:
        return math.inf
    shape = node.input(1).shape
    return math.prod(shape[1:3]) if node.op == "DEPTHWISE_CONV_2D" else math.prod(shape[1:])


def windows(node: Node, x: Array) -> NDArray[np.float64]:
    """What the weights are multiplied with where input 0 has the real values ``x``: [groups, windows, inputs]."""
    if node.op == "FULLY_CONNECTED":
        return np.asarray(x.reshape(1, -1, node.input(1).shape[1]), np.float64)
    _, k_h, k_w, last = node.input(1).shape
    g = window_of(node, k_h, k_w, node.output.shape[3])
    taps = np.stack([shifted(x, g, ky, kx, 0) for ky, kx in g.taps()], axis=3)  # [batch, y, x, tap, channel]
    each = 1 if node.op == "DEPTHWISE_CONV_2D" else last
    grouped = taps.reshape(g.pixels, k_h * k_w, g.in_c // each, each).transpose(2, 0, 1, 3)
    return np.asarray(grouped.reshape(g.in_c // each, g.pixels, -1), np.float64)
