"""Adaptive rounding of weights: what rounding one weight does to a layer's output is made good by the next ones.

The weights of an output channel are rounded in order; the error of each is spread over those that follow so that the
output over the calibration samples changes least. Source: Frantar et al. 2023, "GPTQ" (section 3.3), which solves the
layer-wise reconstruction that AdaRound (Nagel et al. 2020) poses without gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.calibrate import run
from twinfer.converter.quant_forms import precision_of
from twinfer.converter.quant_weights import MOST, Layer, integers
from twinfer.converter.recipe import DEFAULT
from twinfer.converter.samples import Samples, samples_of
from twinfer.runtime.errors import InvalidArgumentError
from twinfer.runtime.graph import Graph, Node, Quant
from twinfer.runtime.op import Array
from twinfer.runtime.ops._conv import shifted, window_of
from twinfer.runtime.plan import make_plan
from twinfer.runtime.session import Session

#: Share of the mean of a Gram matrix's diagonal that is added to it.
DAMPING = 0.01

#: Layers with more weights an output are rounded to the nearest: their Gram matrix would be large.
MOST_INPUTS = 2304


@dataclass(frozen=True, eq=False)
class Gram:
    """Gram matrices of a layer's inputs, [groups, inputs, inputs]: one group, or one a channel (DEPTHWISE_CONV_2D)."""

    sums: NDArray[np.float64]

    @cached_property
    def spread(self) -> NDArray[np.float64]:
        """The upper Cholesky factor of the inverse, [groups, inputs, inputs]: where a weight's error goes."""
        diagonal = np.einsum("gii->gi", self.sums)
        damping = DAMPING * diagonal.mean(axis=1) + np.finfo(np.float32).tiny
        damped = self.sums + damping[:, None, None] * np.eye(self.sums.shape[1])
        scale = damped.max(axis=(1, 2), keepdims=True)  # only ratios count: keeps the inverse within floats
        return np.asarray(np.linalg.cholesky(np.linalg.inv(damped / scale)).transpose(0, 2, 1), np.float64)


def grams(graph: Graph, samples: Samples) -> dict[Node, Gram]:
    """Sums of x xT over all windows x that CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED see in the float graph.

    Errors as those of ``calibrate``; InvalidArgumentError for an iterator, which calibration has used up.
    """
    if isinstance(samples, Iterator):
        raise InvalidArgumentError("the samples are read more than once: give a list, a dict of arrays or a file")
    session = Session(make_plan(graph, preserve_all=True))
    layers = [node for node in graph.nodes if _inputs(node) <= MOST_INPUTS]
    sums: dict[Node, NDArray[np.float64]] = {}
    for sample in samples_of(graph, samples):
        run(session, sample)
        for node in layers:
            x = _windows(node, np.asarray(session.view(node.input(0)), np.float64))
            sums[node] = sums.get(node, 0.0) + x.transpose(0, 2, 1) @ x
    return {node: Gram(matrices) for node, matrices in sums.items()}


def _inputs(node: Node) -> float:
    """Weights of one output; infinite for a node that is none of these layers."""
    if node.op not in _VIEWS or precision_of(node, DEFAULT.default).precision == "float":
        return np.inf
    shape = node.input(1).shape
    return shape[1] * shape[2] if node.op == "DEPTHWISE_CONV_2D" else node.input(1).size // shape[0]


def _windows(node: Node, x: Array) -> NDArray[np.float64]:
    """What the weights are multiplied with: [groups, windows, inputs]."""
    if node.op == "FULLY_CONNECTED":
        return np.asarray(x.reshape(1, -1, node.input(1).shape[1]), np.float64)
    _, k_h, k_w, out_c = node.input(1).shape
    g = window_of(node, k_h, k_w, out_c)
    taps = np.stack([shifted(x, g, ky, kx, 0) for ky, kx in g.taps()], axis=3)  # [batch, y, x, tap, channel]
    if node.op == "CONV_2D":
        return np.asarray(taps.reshape(1, g.pixels, -1), np.float64)
    return np.asarray(taps.reshape(g.pixels, g.k_h * g.k_w, g.in_c).transpose(2, 0, 1), np.float64)


def adaptive(layer: Layer, quant: Quant, gram: Gram) -> NDArray[np.int64]:
    """The weights as integers, in their shape."""
    view, back = _VIEWS[layer.node.op]
    groups, spread = len(gram.sums), gram.spread
    scales = np.broadcast_to(quant.scale.astype(np.float64), (layer.channels,)).reshape(groups, -1)
    rest = view(layer.values()).reshape(groups, scales.shape[1], -1).copy()
    q = np.zeros_like(rest)
    for k in range(rest.shape[2]):
        q[:, :, k] = np.clip(np.round(rest[:, :, k] / scales), -MOST[layer.bits], MOST[layer.bits])
        error = (rest[:, :, k] - q[:, :, k] * scales) / spread[:, k, k, None]
        rest[:, :, k + 1 :] -= error[:, :, None] * spread[:, None, k, k + 1 :]
    found = back(q.reshape(layer.channels, -1), layer.weights.shape).astype(np.int64)
    return _better(layer, quant, gram, found)


def _better(layer: Layer, quant: Quant, gram: Gram, found: NDArray[np.int64]) -> NDArray[np.int64]:
    """For every output what ``found`` or rounding to the nearest says, whichever changes the outputs less."""
    view, back = _VIEWS[layer.node.op]
    nearest = integers(layer, quant)
    scales = np.broadcast_to(quant.scale.astype(np.float64), (layer.channels,))[:, None]
    rows = [view(q.astype(np.float64)) for q in (found, nearest)]
    errors = []
    for q in rows:
        off = (q * scales - view(layer.values())).reshape(len(gram.sums), -1, gram.sums.shape[1])
        errors.append(np.einsum("gri,gri->gr", off @ gram.sums, off).reshape(-1))
    chosen = np.where((errors[0] < errors[1])[:, None], rows[0], rows[1])
    return back(chosen, layer.weights.shape).astype(np.int64)


def _rows(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return weights.reshape(len(weights), -1)


def _columns(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.ascontiguousarray(weights.reshape(-1, weights.shape[-1]).T)


def _from_rows(rows: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64]:
    return rows.reshape(shape)


def _from_columns(rows: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64]:
    return rows.T.reshape(shape)


#: Operator -> weights as [outputs, inputs], and back.
_VIEWS = {
    "CONV_2D": (_rows, _from_rows),
    "FULLY_CONNECTED": (_rows, _from_rows),
    "DEPTHWISE_CONV_2D": (_columns, _from_columns),
}
