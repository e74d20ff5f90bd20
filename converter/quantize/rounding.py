"""Adaptive rounding of weights: later weights correct what rounding the earlier ones did to a layer's output.

The weights of an output channel are rounded in order; the error of each is spread over those that follow, so that the
outputs over the calibration samples change least. The inputs of a layer's weights as Gram matrices tell how much a
change of the weights matters. Source: Frantar et al. 2023, "GPTQ" (section 3.3), which solves the layer-wise
reconstruction that AdaRound (Nagel et al. 2020) poses without gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from twinfer.converter.quantize.calibrate import finite, run
from twinfer.converter.quantize.forms import precision_of
from twinfer.converter.quantize.recipe import DEFAULT
from twinfer.converter.quantize.samples import Samples, count_of, need_to_last, samples_of
from twinfer.converter.quantize.weights import MOST, Layer, integers
from twinfer.converter.table import parameters_of, row_of
from twinfer.runtime.graph import Array, Graph, Node, Quant
from twinfer.runtime.ops.core.window import window_of
from twinfer.runtime.options import Options
from twinfer.runtime.plan.make import make_plan
from twinfer.runtime.run.session import Session

#: Layers with more weights per output get no Gram matrix: it would be too large.
MOST_INPUTS = 2304

#: Share of the mean of a Gram matrix's diagonal that is added to it.
DAMPING = 0.01

#: Windows of a layer that count, beside two for each of its inputs: of more, as many are drawn from all samples.
WINDOWS = 4096

#: How many columns are rounded before all others see their errors.
BLOCK = 64


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


def windows(node: Node, x: Array, picked: Array | None = None) -> NDArray[np.float64]:
    """The values that the weights are multiplied with if input 0 is ``x`` (real): [groups, windows, inputs].

    ``picked``: numbers of the windows; None: all.
    """
    row = row_of(node)
    if not row.image:
        rows = x.reshape(-1, node.input(1).shape[1])
        return np.asarray(rows if picked is None else rows[picked], np.float64)[None]
    _, k_h, k_w, last = node.input(1).shape
    g = window_of(node, k_h, k_w, node.output.shape[3])
    batch, y, z = np.unravel_index(np.arange(g.pixels) if picked is None else picked, g.shape[:3])
    y = (y * g.stride_h - g.pad_h)[:, None, None] + g.dilation_h * np.arange(k_h)[:, None]
    z = (z * g.stride_w - g.pad_w)[:, None, None] + g.dilation_w * np.arange(k_w)
    inside = (y >= 0) & (y < g.in_h) & (z >= 0) & (z < g.in_w)  # [windows, k_h, k_w]
    pixel = (batch[:, None, None] * g.in_h + y.clip(0, g.in_h - 1)) * g.in_w + z.clip(0, g.in_w - 1)
    taps = np.where(inside[..., None], x.reshape(-1, g.in_c)[pixel], 0.0)
    each = 1 if row.parameters is not None and row.parameters.depthwise else last
    grouped = taps.reshape(len(batch), k_h * k_w, g.in_c // each, each).transpose(2, 0, 1, 3)
    return np.asarray(grouped.reshape(g.in_c // each, len(batch), -1), np.float64)


def most_windows(node: Node, samples: int) -> int:
    """How many windows of each of so many samples count."""
    return -(-(WINDOWS + 2 * int(inputs_of(node))) // max(1, samples))


def drawn(node: Node, most: int, rng: np.random.Generator) -> NDArray[np.int64] | None:
    """Numbers of the windows that are drawn of one sample; None if all are."""
    parameters = parameters_of(node)
    count = node.output.size // (1 if parameters is None else parameters.channels(node))
    return np.sort(rng.choice(count, most, replace=False)) if count > most else None


#: Weights of a layer, [groups, outputs, inputs].
Rows = NDArray[np.float64]


def grams(graph: Graph, samples: Samples) -> dict[Node, Gram]:
    """Sums of x xT over windows x of the input that layers see in the float graph, where ``inputs_of`` knows them.

    Errors as those of ``calibrate``; InvalidArgumentError for an iterator, which calibration has used up.
    """
    need_to_last(samples)
    session = Session(make_plan(graph, options=Options(preserve_all=True)))
    quantised = [node for node in graph.nodes if precision_of(node, DEFAULT.default).precision != "float"]
    layers = [node for node in quantised if inputs_of(node) <= MOST_INPUTS]
    sums: dict[Node, NDArray[np.float64]] = {}
    count, rng = count_of(graph, samples) or 1, np.random.default_rng(0)
    for i, sample in enumerate(samples_of(graph, samples)):
        run(session, sample)
        for node in layers:
            seen = finite(session.view(node.input(0)), node.input(0), i, graph)
            x = windows(node, np.asarray(seen, np.float64), drawn(node, most_windows(node, count), rng))
            sums[node] = sums.get(node, 0.0) + x.transpose(0, 2, 1) @ x
    return {node: Gram(matrices) for node, matrices in sums.items()}


def adaptive(layer: Layer, quant: Quant, gram: Gram) -> NDArray[np.int64]:
    """The weights as integers, in their shape. Weights of 0, as pruning leaves them, stay 0."""
    axis = layer.parameters.axis
    scales = np.broadcast_to(quant.scale.astype(np.float64), (layer.channels,)).reshape(len(gram.sums), -1)
    rows = rows_of(layer.values(), axis).reshape(*scales.shape, -1)
    most = MOST[layer.bits]

    def nearest(values: Rows, k: int) -> Rows:
        whole = np.clip(np.round(values / scales), -most, most)
        return np.where(rows[:, :, k] == 0, 0.0, whole * scales)

    q = np.round(feed_back(rows, gram, nearest) / scales[:, :, None])
    plain = rows_of(integers(layer, quant).astype(np.float64), axis).reshape(rows.shape)
    q = np.where(nearer(rows, q * scales[:, :, None], plain * scales[:, :, None], gram)[:, :, None], q, plain)
    return from_rows(q.reshape(layer.channels, -1), layer.weights.shape, axis).astype(np.int64)


def feed_back(rows: Rows, gram: Gram, nearest: Callable[[Rows, int], Rows]) -> Rows:
    """The rows [groups, outputs, inputs] of weights, rounded column by column by ``nearest(column [groups, outputs],
    its number)``, the error of each spread over the columns that follow."""
    rest, rounded, spread = rows.copy(), np.zeros_like(rows), gram.spread
    for low in range(0, rows.shape[2], BLOCK):
        high = min(low + BLOCK, rows.shape[2])
        errors = np.empty((*rows.shape[:2], high - low))
        for k in range(low, high):
            rounded[:, :, k] = nearest(rest[:, :, k], k)
            error = errors[:, :, k - low] = (rest[:, :, k] - rounded[:, :, k]) / spread[:, k, k, None]
            rest[:, :, k + 1 : high] -= error[:, :, None] * spread[:, None, k, k + 1 : high]
        rest[:, :, high:] -= errors @ spread[:, low:high, high:]  # the columns behind the block see it at once
    return rounded


def nearer(wanted: Rows, one: Rows, other: Rows, gram: Gram) -> NDArray[np.bool_]:
    """Whether ``one`` changes each output less than ``other`` does: [groups, outputs]."""
    return np.asarray(gram.error(one - wanted) < gram.error(other - wanted))


def rows_of(weights: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Weights whose outputs are on this axis as [outputs, inputs]."""
    outputs_first = np.moveaxis(weights, axis, 0)
    return np.ascontiguousarray(outputs_first.reshape(len(outputs_first), -1))


def from_rows(rows: NDArray[np.float64], shape: tuple[int, ...], axis: int) -> NDArray[np.float64]:
    """Weights of that shape, with the outputs on this axis, from [outputs, inputs]."""
    others = tuple(extent for i, extent in enumerate(shape) if i != axis)
    return np.ascontiguousarray(np.moveaxis(rows.reshape(len(rows), *others), 0, axis))
